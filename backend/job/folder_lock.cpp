#include "backend/job/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

#include "core/base/error.h"

namespace shardscope {

FolderLock::FolderLock(const std::filesystem::path& folder)
    : file_(::open((folder / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
  if (!file_.valid())
    throw Error({.where = folder.string(), .what = errno_text("open"), .code = ExitCode::outside});
  // Some file systems have no locks; a run there goes on without.
  if (::flock(file_.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  throw Error({.where = folder.string(),
               .what = "another run is writing into this folder",
               .way_out = "give another one with -o, or wait until that run has ended",
               .code = ExitCode::outside});
}

}  // namespace shardscope
