# cmake -DNAMES=cuda_names.txt -DOUTPUT=generated.cpp -P GenerateUnwritten.cmake
# A weak function for every name, in a section of their own, so that those that are written by hand take their place.
file(STRINGS "${NAMES}" names)
set(text "#include \"backend/recorder/device/device_state.h\"\n\nusing shardscope::recorder::unknown_call;\n\n")
string(APPEND text "#define UNWRITTEN(name, answer) \\\n")
string(APPEND text "  extern \"C\" [[gnu::weak, gnu::visibility(\"default\"), gnu::section(\"shardscope_unwritten\")]] \\\n")
string(APPEND text "  long name() { return unknown_call(#name), answer; }\n\n")
# Of what makes a handle the caller must get one.
string(APPEND text "#define UNWRITTEN_MAKER(name) \\\n")
string(APPEND text "  extern \"C\" [[gnu::weak, gnu::visibility(\"default\"), gnu::section(\"shardscope_unwritten\")]] \\\n")
string(APPEND text "  long name(void** to) { *to = new long[64](); return unknown_call(#name); }\n\n")
foreach(name IN LISTS names)
  if(name MATCHES "^nvml")
    string(APPEND text "UNWRITTEN(${name}, 3)\n")  # NVML_ERROR_NOT_SUPPORTED
  elseif(name MATCHES "^(nccl|cublas|cusparse|cufft|cusolver).*(String|Name)$")
    string(APPEND text "UNWRITTEN(${name}, reinterpret_cast<long>(\"?\"))\n")
  elseif(name MATCHES "^cudnnCreate.*Descriptor$")
    string(APPEND text "UNWRITTEN_MAKER(${name})\n")
  else()
    string(APPEND text "UNWRITTEN(${name}, 0)\n")
  endif()
endforeach()
file(WRITE "${OUTPUT}" "${text}")
