// Any bytes as a job file: either an Error, or a job that its own text gives back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/base/error.h"
#include "core/native/job.h"
#include "tests/fuzz/memory_file.h"

namespace {

using shardscope::Job;
using shardscope::fuzz::MemoryFile;

Job job_of(const std::uint8_t* data, std::size_t size) {
  const MemoryFile file(data, size);
  return shardscope::read_job(file.path());
}

bool reads_back(const Job& job) {
  const std::string text = to_json(job);
  try {
    return to_json(job_of(reinterpret_cast<const std::uint8_t*>(text.data()), text.size())) == text;
  } catch (const shardscope::Error&) {
    return false;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const Job job = job_of(data, size);
    if (!reads_back(job)) std::abort();
  } catch (const shardscope::Error&) {
  }
  return 0;
}
