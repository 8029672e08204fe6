// Stands for the CUDA driver while cuDNN makes plans for a device that is only described: it takes the code that cuDNN
// compiles and says that it was loaded. Everything else is there to be found, and refuses.
static int something;

int cuLibraryLoadData(void** library) {
  *library = &something;
  return 0;
}
int cuLibraryGetKernel(void** kernel) {
  *kernel = &something;
  return 0;
}
int cuKernelSetAttribute(void) { return 0; }
int cuLibraryUnload(void) { return 0; }

enum { stub_library = 34 };
#define REFUSES(name) \
  int name(void) { return stub_library; }
REFUSES(cuCtxGetCurrent)
REFUSES(cuCtxGetLimit)
REFUSES(cuCtxPopCurrent)
REFUSES(cuCtxPushCurrent)
REFUSES(cuDeviceGet)
REFUSES(cuDeviceGetCount)
REFUSES(cuDriverGetVersion)
REFUSES(cuGetErrorName)
REFUSES(cuGetErrorString)
REFUSES(cuKernelGetAttribute)
REFUSES(cuLaunchCooperativeKernel)
REFUSES(cuLaunchKernel)
REFUSES(cuLaunchKernelEx)
REFUSES(cuLibraryLoadFromFile)
REFUSES(cuLinkAddData)
REFUSES(cuLinkComplete)
REFUSES(cuLinkCreate)
REFUSES(cuLinkDestroy)
REFUSES(cuOccupancyMaxPotentialClusterSize)
REFUSES(cuStreamGetCtx)
