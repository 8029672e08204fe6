#include "core/config/megatron/known_flags.h"

#include <algorithm>
#include <array>
#include <span>

namespace shardscope::megatron {
namespace {

/// Flags of torch.distributed.run that scripts of Megatron-LM have.
constexpr std::string_view of_launchers[] = {
    "nproc-per-node",     "nnodes",       "node-rank",     "master-addr",
    "master-port",        "rdzv-backend", "rdzv-endpoint", "rdzv-id",
    "local-ranks-filter", "role",         "tee",           "log-dir",
    "max-restarts",       "rdzv-conf",    "local-addr",    "start-method",
    "monitor-interval",   "redirects",    "standalone"};
/// Flags that change neither time nor memory of a step.
constexpr std::string_view no_bearing[] = {"use-legacy-models",
                                           "tokenizer-type",
                                           "tokenizer-model",
                                           "vocab-file",
                                           "merge-file",
                                           "lr",
                                           "min-lr",
                                           "weight-decay",
                                           "adam-beta1",
                                           "adam-beta2",
                                           "adam-eps",
                                           "clip-grad",
                                           "seed",
                                           "split",
                                           "data-path",
                                           "data-cache-path",
                                           "mock-data",
                                           "num-workers",
                                           "save",
                                           "load",
                                           "save-interval",
                                           "eval-interval",
                                           "eval-iters",
                                           "log-interval",
                                           "log-throughput",
                                           "log-params-norm",
                                           "log-num-zeros-in-grad",
                                           "norm-epsilon",
                                           "init-method-std",
                                           "use-rope-scaling",
                                           "distributed-backend",
                                           "distributed-timeout-minutes",
                                           "train-iters",
                                           "train-samples",
                                           "exit-duration-in-mins",
                                           "exit-interval",
                                           "exit-signal-handler",
                                           "no-load-optim",
                                           "no-load-rng",
                                           "no-save-optim",
                                           "no-save-rng",
                                           "finetune",
                                           "override-opt-param-scheduler",
                                           "attention-softmax-in-fp32",
                                           "no-masked-softmax-fusion",
                                           "no-create-attention-mask-in-dataloader",
                                           "create-attention-mask-in-dataloader",
                                           "no-mmap-bin-files",
                                           "reset-position-ids",
                                           "reset-attention-mask",
                                           "eod-mask-loss",
                                           "apply-layernorm-1p",
                                           "squared-relu",
                                           "openai-gelu",
                                           "manual-gc",
                                           "manual-gc-interval",
                                           "manual-gc-eval",
                                           "empty-unused-memory-level",
                                           "check-for-nan-in-loss-and-grad",
                                           "no-check-for-nan-in-loss-and-grad",
                                           "loss-scale",
                                           "initial-loss-scale",
                                           "min-loss-scale",
                                           "loss-scale-window",
                                           "hysteresis",
                                           "start-weight-decay",
                                           "end-weight-decay",
                                           "weight-decay-incr-style",
                                           "profile",
                                           "profile-step-start",
                                           "profile-step-end",
                                           "profile-ranks",
                                           "use-pytorch-profiler",
                                           "record-memory-history",
                                           "fp8-margin",
                                           "fp8-interval",
                                           "fp8-amax-history-len",
                                           "fp8-amax-compute-algo",
                                           "no-fp8-wgrad",
                                           "te-rng-tracker",
                                           "use-te-rng-tracker",
                                           "no-bias-gelu-fusion",
                                           "no-bias-swiglu-fusion",
                                           "no-bias-dropout-fusion",
                                           "no-rope-fusion",
                                           "no-persist-layer-norm",
                                           "moe-permute-fusion",
                                           "moe-router-fusion",
                                           "moe-grouped-gemm",
                                           "ddp-bucket-size",
                                           "calculate-per-token-loss",
                                           "trust-remote-code",
                                           "pretrained-checkpoint",
                                           "enable-experimental",
                                           "auto-detect-ckpt-format",
                                           "ddp-num-buckets"};
/// How names of further such flags begin.
constexpr std::string_view no_bearing_prefixes[] = {"lr-",
                                                    "log-",
                                                    "tensorboard",
                                                    "wandb-",
                                                    "ckpt-",
                                                    "dist-ckpt",
                                                    "async-save",
                                                    "timing-",
                                                    "logging-",
                                                    "no-log-",
                                                    "moe-aux",
                                                    "moe-z-loss",
                                                    "moe-router-",
                                                    "decoupled-",
                                                    "rotary-percent",
                                                    "rotary-seq-len",
                                                    "rotary-interleaved",
                                                    "mscale",
                                                    "rope-",
                                                    "dataloader-",
                                                    "inference-",
                                                    "moe-token-drop",
                                                    "moe-per-",
                                                    "rampup-",
                                                    "data-args",
                                                    "train-data",
                                                    "valid-data",
                                                    "test-data",
                                                    "tiktoken-",
                                                    "non-persistent",
                                                    "one-logger",
                                                    "ft-",
                                                    "use-checkpoint"};

/// Flags whose effect is left out, and what is predicted instead.
struct LeftOut {
  std::string_view name, instead;
};
constexpr std::array<LeftOut, 22> effects_left_out{
    {{"fp8-param-gather", "parameters are gathered in 16 bits"},
     {"overlap-param-gather-with-optimizer-step", "parameters are gathered behind the update"},
     {"delay-wgrad-compute", "weights' gradients are computed in place"},
     {"overlap-moe-expert-parallel-comm", "experts' exchange is not hidden"},
     {"moe-shared-expert-overlap", "experts' exchange is not hidden"},
     {"mtp-num-layers", "layers that predict further tokens are left out"},
     {"cuda-graph-impl", "kernels are launched one by one"},
     {"enable-cuda-graph", "kernels are launched one by one"},
     {"external-cuda-graph", "kernels are launched one by one"},
     {"num-distributed-optimizer-instances", "states are sharded over all data-parallel ranks"},
     {"optimizer-cpu-offload", "optimizer states stay on the device"},
     {"use-precision-aware-optimizer", "optimizer states are in float32"},
     {"cp-comm-type", "keys and values go round in a ring"},
     {"moe-token-dispatcher-type", "tokens go by all-to-all"},
     {"moe-enable-deepep", "tokens go by NCCL's all-to-all"},
     {"moe-layer-recompute", "layers with experts are not run again"},
     {"window-size", "attention sees all earlier tokens"},
     {"softmax-type", "attention has the usual softmax"},
     {"tp-comm-overlap-cfg", "all sums of tensor parallelism overlap alike"},
     {"no-overlap-p2p-communication", "sends and receives are played the same way"},
     {"microbatch-group-size-per-virtual-pipeline-stage",
      "groups have as many micro-batches as the pipeline has ranks"},
     {"fp32-residual-connection", "the residual stream has the parameters' dtype"}}};

/// Flags that make another training, which is not predicted.
constexpr std::array<LeftOut, 16> other_trainings{
    {{"use-torch-fsdp2", "give --runtime fsdp2 without this file"},
     {"use-megatron-fsdp", "give --use-distributed-optimizer"},
     {"use-custom-fsdp", "give --use-distributed-optimizer"},
     {"pipeline-model-parallel-layout",
      "give --decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers"},
     {"tensor-parallel-num-weight-shards", "give --tensor-model-parallel-size alone"},
     {"hybrid-context-parallel", "give --context-parallel-size alone"},
     {"hierarchical-context-parallel-sizes", "give --context-parallel-size alone"},
     {"cpu-offloading-num-layers", "give --recompute-granularity full"},
     {"moe-latent-size", "give experts of the hidden size"},
     {"step-batch-size-schedule", "give --global-batch-size"},
     {"hybrid-layer-pattern", "give a model of transformer layers"},
     {"hybrid-override-pattern", "give a model of transformer layers"},
     {"fp4-format", "give --fp8-format or --bf16"},
     {"heterogeneous-layers-config-path", "give layers that are alike"},
     {"encoder-num-layers", "give a decoder"},
     {"encoder-tensor-model-parallel-size", "give a decoder"}}};

std::optional<std::string_view> found_in(std::span<const LeftOut> list, std::string_view flag) {
  const auto found = std::ranges::find(list, flag, &LeftOut::name);
  return found == list.end() ? std::nullopt : std::optional(found->instead);
}

}  // namespace

bool is_launchers(std::string_view flag) {
  return std::ranges::find(of_launchers, flag) != std::end(of_launchers);
}

bool has_no_bearing(std::string_view flag) {
  return is_launchers(flag) || std::ranges::find(no_bearing, flag) != std::end(no_bearing) ||
         std::ranges::any_of(no_bearing_prefixes,
                             [&](std::string_view begin) { return flag.starts_with(begin); });
}

std::optional<std::string_view> left_out(std::string_view flag) {
  return found_in(effects_left_out, flag);
}

std::optional<std::string_view> not_predicted(std::string_view flag) {
  return found_in(other_trainings, flag);
}

}  // namespace shardscope::megatron
