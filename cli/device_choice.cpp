#include "cli/device_choice.h"

#include <fmt/format.h>

#include "backend/comm/nccl/communicator.h"
#include "backend/cuda/cuda_device.h"
#include "core/base/precision.h"

namespace shardscope {
namespace {

/// Empty: the job can run on a GPU here.
std::string why_not_on_cuda(const Job& job, int local_ranks) {
  if (std::string why = why_no_cuda_device(); !why.empty()) return why;
  if (job.ranks > 1 && !has_nccl()) return "this program was built without NCCL";
  if (const int gpus = cuda_device_count(); local_ranks > gpus)
    return fmt::format("there are {} ranks and {} GPUs here", local_ranks, gpus);
  return job.check ? "the checking mode looks into the arena" : "";
}

}  // namespace

std::vector<std::string> choose_device(Job& job, int local_ranks) {
  std::vector<std::string> assumed;
  if (job.device == "auto") {
    const std::string why_not = why_not_on_cuda(job, local_ranks);
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
