#include "cli/device_choice.h"

#include <fmt/format.h>

#include "backend/cuda/cuda_device.h"
#include "core/precision.h"

namespace shardscope {
namespace {

/// Empty: the job can run on a GPU here.
std::string why_not_on_cuda(const Job& job) {
  if (std::string why = why_no_cuda_device(); !why.empty()) return why;
  if (job.ranks > 1)
    return fmt::format("{} ranks on GPUs need NCCL, which this version does not drive yet",
                       job.ranks);
  return job.check ? "the checking mode looks into the arena" : "";
}

}  // namespace

std::vector<std::string> choose_device(Job& job) {
  std::vector<std::string> assumed;
  if (job.device == "auto") {
    const std::string why_not = why_not_on_cuda(job);
    job.device = why_not.empty() ? "cuda" : "cpu";
    assumed.push_back(fmt::format("device {}, because {} (--device)", job.device,
                                  why_not.empty() ? "a GPU is here" : why_not));
  }
  for (std::string& text : choose_precision(job, job.device)) assumed.push_back(std::move(text));
  return assumed;
}

std::vector<std::string> choose_precision(Job& job, const std::string& device) {
  if (job.precision_given) return {};
  job.strategy.precision = device == "cuda" ? Precision::bf16_mixed : Precision::fp32;
  job.precision_given = true;
  return {fmt::format("precision {}, usual on {} (--precision)", name_of(job.strategy.precision),
                      device)};
}

}  // namespace shardscope
