// The owner of a file descriptor.
#pragma once

#include <string>

namespace shardscope {

/// A file descriptor that is closed when its owner goes; -1 is none.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();

  int get() const { return descriptor_; }
  bool valid() const { return descriptor_ >= 0; }
  void close();

 private:
  int descriptor_ = -1;
};

/// "call: Permission denied" for the current errno.
std::string errno_text(const char* call);

}  // namespace shardscope
