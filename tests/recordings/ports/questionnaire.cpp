#include "tests/recordings/ports/questionnaire.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/base/refusal.h"
#include "core/config/values/python_number.h"
#include "core/format/python_text.h"

namespace shardscope::accelerate {
namespace {

using Options = std::vector<std::string>;

constexpr std::size_t most_questions = 500;

/// Source: commands/config/config_utils.py, _ask_field and _ask_options.
class Asker {
 public:
  explicit Asker(const Answer& answer) : answer_(answer) {}

  std::size_t menu(const std::string& question, const Options& options, std::size_t otherwise = 0) {
    std::size_t index = otherwise;
    if (const auto given = answer_(question)) {
      const auto found = std::find(options.begin(), options.end(), *given);
      if (found == options.end())
        throw Refusal("ValueError", fmt::format("{} is not in the menu", python_quoted(*given)));
      index = static_cast<std::size_t>(found - options.begin());
    }
    note(question, options[index]);
    return index;
  }
  std::string choice(const std::string& question, const Options& options,
                     std::size_t otherwise = 0) {
    return options[menu(question, options, otherwise)];
  }
  std::string text(const std::string& question, const std::optional<std::string>& otherwise = {}) {
    const std::string typed = answer_(question).value_or("");
    note(question, typed);
    return typed.empty() && otherwise ? *otherwise : typed;
  }
  bool yes(const std::string& question, bool otherwise) {
    while (true) {
      const std::string typed = lower_of(text(question));
      if (typed.empty()) return otherwise;
      if (typed == "yes" || typed == "no") return typed == "yes";
    }
  }
  /// Asks again until the answer is a number.
  ConfigValue number(const std::string& question, const ConfigValue& otherwise,
                     bool is_float = false) {
    while (true) {
      const std::string typed = text(question);
      if (typed.empty() && !otherwise.is_null()) return otherwise;
      try {
        return is_float ? ConfigValue(python_float_of(typed)) : python_integer(typed);
      } catch (const Refusal&) {
        continue;
      }
    }
  }

  std::vector<AskedQuestion> asked;

 private:
  void note(const std::string& question, const std::string& answer) {
    if (asked.size() >= most_questions)
      throw Error({.where = {},
                   .what = fmt::format("\"{}\" finds no answer", question),
                   .way_out = "answer it"});
    asked.push_back({std::string(stripped(question)), answer});
  }

  const Answer& answer_;
};

bool above_one(const ConfigValue& number) { return number.number() > 1; }

/// One run through the questions; each part of the configuration is asked for by one function.
class Questionnaire {
 public:
  explicit Questionnaire(const Answer& answer) : ask_(answer) {}

  Interview run() {
    choose_type();
    machines();
    dynamo();
    if (is_multi_device() || type_ == "NO") deepspeed();
    if (is_multi_device()) fsdp();
    if (fsdp_.get("fsdp_version") == ConfigValue(2)) parallelism();
    if (type_ == "MULTI_GPU") megatron();
    processes();
    precision();
    return {.config = config(), .asked = std::move(ask_.asked)};
  }

 private:
  bool is_multi_device() const { return type_.starts_with("MULTI_") && type_ != "MULTI_CPU"; }

  void choose_type() {
    const Options types{"NO",         "MULTI_CPU",    "MULTI_XPU", "MULTI_HPU",
                        "MULTI_GPU",  "MULTI_NPU",    "MULTI_MLU", "MULTI_SDAA",
                        "MULTI_MUSA", "MULTI_NEURON", "XLA"};
    type_ = types[ask_.menu(
        "Which type of machine are you using?",
        {"No distributed training", "multi-CPU", "multi-XPU", "multi-HPU", "multi-GPU", "multi-NPU",
         "multi-MLU", "multi-SDAA", "multi-MUSA", "multi-NEURON", "TPU"})];
    if (type_ == "XLA")
      throw Error(
          {.where = {}, .what = "questions about TPUs are not known", .way_out = "choose GPUs"});
  }

  void machines() {
    if (type_.starts_with("MULTI_")) {
      machines_ = ask_.number(
          "How many different machines will you use (use more than 1 for multi-node training)? "
          "[1]: ",
          1);
      if (above_one(machines_)) several_machines();
      debug_ = ask_.yes(
          "Should distributed operations be checked while running for errors? This can avoid "
          "timeout issues but will be slower. [yes/NO]: ",
          false);
    }
    if (type_ == "NO")
      cpu_ = ask_.yes(
          "Do you want to run your training on CPU only (even if a GPU / Apple Silicon / Ascend "
          "NPU device is available)? [yes/NO]:",
          false);
    if (type_ != "MULTI_CPU") return;
    cpu_ = true;
    if (ask_.yes("Do you want accelerate to launch mpirun? [yes/NO]: ", false))
      mpirun_.set("mpirun_hostfile",
                  std::string(stripped(ask_.text(
                      "Please enter the path to the hostfile to use with mpirun [~/hostfile]: ",
                      "~/hostfile"))));
  }

  void several_machines() {
    if (machines_.number() > 10'000)
      throw Error({.where = {},
                   .what = fmt::format("{} machines", machines_.str()),
                   .way_out = "give the size of a cluster"});
    Options ranks;
    for (std::int64_t i = 0; i < machines_.integer(); ++i) ranks.push_back(std::to_string(i));
    rank_ = static_cast<std::int64_t>(ask_.menu("What is the rank of this machine?", ranks));
    ip_ = ask_.text("What is the IP address of the machine that will host the main process? ");
    port_ = ask_.number("What is the port you will use to communicate with the main process? ", {});
    same_network_ = ask_.yes(
        "Are all the machines on the same local network? Answer `no` if nodes are on the cloud "
        "and/or on different network hosts [YES/no]: ",
        true);
    if (!same_network_)
      rendezvous_ =
          ask_.text("What rendezvous backend will you use? ('static', 'c10d', ...): ", "static");
  }

  void dynamo() {
    if (!ask_.yes("Do you wish to optimize your script with torch dynamo?[yes/NO]:", false)) return;
    const std::string backend = ask_.choice(
        "Which dynamo backend would you like to use?",
        {"eager", "aot_eager", "inductor", "aot_ts_nvfuser", "nvprims_nvfuser", "cudagraphs", "ofi",
         "fx2trt", "onnxrt", "tensorrt", "aot_torchxla_trace_once", "torhchxla_trace_once", "tvm"},
        2);
    // The menu misspells this one, and the enumeration has no such name.
    if (backend == "torhchxla_trace_once")
      throw Refusal("ValueError", "'TORHCHXLA_TRACE_ONCE' is not a valid DynamoBackend");
    dynamo_.set("dynamo_backend", upper_of(backend));
    if (!ask_.yes("Do you want to customize the defaults sent to torch.compile? [yes/NO]: ", false))
      return;
    dynamo_.set("dynamo_mode", ask_.choice("Which mode do you want to use?",
                                           {"default", "reduce-overhead", "max-autotune"}));
    dynamo_.set("dynamo_use_fullgraph", ask_.yes("Do you want the fullgraph mode or it is ok to "
                                                 "break model into several subgraphs? [yes/NO]: ",
                                                 false));
    dynamo_.set("dynamo_use_dynamic",
                ask_.yes("Do you want to enable dynamic shape tracing? [yes/NO]: ", false));
    dynamo_.set("dynamo_use_regional_compilation",
                ask_.yes("Do you want to enable regional compilation? [yes/NO]: ", false));
  }

  void deepspeed() {
    if (!ask_.yes("Do you want to use DeepSpeed? [yes/NO]: ", false)) return;
    if (type_ == "MULTI_NEURON")
      throw Refusal("RuntimeError", "DeepSpeed does not run on Neuron devices");
    type_ = "DEEPSPEED";
    deepspeed_file_ =
        ask_.yes("Do you want to specify a json file to a DeepSpeed config? [yes/NO]: ", false);
    if (deepspeed_file_)
      deepspeed_.set(
          "deepspeed_config_file",
          ask_.text("Please enter the path to the json DeepSpeed config file: ", "none"));
    else
      deepspeed_settings();
    deepspeed_.set("zero3_init_flag",
                   ask_.yes("Do you want to enable `deepspeed.zero.Init` when using ZeRO Stage-3 "
                            "for constructing massive models? [yes/NO]: ",
                            false));
    if (ask_.yes("Do you want to enable Mixture-of-Experts training (MoE)? [yes/NO]: ", false))
      deepspeed_.set("deepspeed_moe_layer_cls_names",
                     ask_.text("Specify the comma-separated list of transformers MoE layer class "
                               "names (case-sensitive), e.g : "
                               " `MixtralSparseMoeBlock`, `Qwen2MoeSparseMoeBlock`, "
                               "`JetMoEAttention,JetMoEBlock` ... : "));
    if (above_one(machines_)) deepspeed_launcher();
  }

  void deepspeed_settings() {
    const auto stage = static_cast<std::int64_t>(ask_.menu(
        "What should be your DeepSpeed's ZeRO optimization stage?", {"0", "1", "2", "3"}, 2));
    deepspeed_.set("zero_stage", stage);
    const Options devices{"none", "cpu", "nvme"};
    if (stage >= 2) {
      deepspeed_.set("offload_optimizer_device",
                     ask_.choice("Where to offload optimizer states?", devices));
      deepspeed_.set("offload_param_device", ask_.choice("Where to offload parameters?", devices));
      if (deepspeed_.at("offload_param_device").is("nvme"))
        deepspeed_.set("offload_param_nvme_path",
                       ask_.text("Nvme Path to offload parameters?", "/nvme"));
      if (deepspeed_.at("offload_optimizer_device").is("nvme"))
        deepspeed_.set("offload_optimizer_nvme_path",
                       ask_.text("Nvme Path to offload optimizer states?", "/nvme"));
    }
    deepspeed_.set(
        "gradient_accumulation_steps",
        ask_.number("How many gradient accumulation steps you're passing in your script? [1]: ",
                    1));
    if (ask_.yes("Do you want to use gradient clipping? [yes/NO]: ", false))
      deepspeed_.set("gradient_clipping",
                     ask_.number("What is the gradient clipping value? [1.0]: ", 1.0, true));
    if (stage == 3)
      deepspeed_.set(
          "zero3_save_16bit_model",
          ask_.yes("Do you want to save 16-bit model weights when using ZeRO Stage-3? [yes/NO]: ",
                   false));
  }

  void deepspeed_launcher() {
    const std::string launcher =
        ask_.choice("Which Type of launcher do you want to use?",
                    {"pdsh", "standard", "openmpi", "mvapich", "mpich", "nossh", "slurm"});
    deepspeed_.set("deepspeed_multinode_launcher", launcher);
    if (launcher == "standard") return;
    deepspeed_.set(
        "deepspeed_hostfile",
        ask_.text(
            "DeepSpeed configures multi-node compute resources with hostfile. "
            "Each row is of the format `hostname slots=[num_gpus]`, e.g., `localhost slots=2`; "
            "for more information please refer official [documentation]"
            "(https://www.deepspeed.ai/getting-started/#resource-configuration-multi-node). "
            "Please specify the location of hostfile: "));
    for (const std::string kind : {"exclusion", "inclusion"})
      if (ask_.yes(fmt::format("Do you want to specify {} filter string? [yes/NO]: ", kind), false))
        deepspeed_.set(fmt::format("deepspeed_{}_filter", kind),
                       ask_.text(fmt::format("DeepSpeed {} filter string: ", kind)));
  }

  void fsdp() {
    if (!ask_.yes("Do you want to use FullyShardedDataParallel? [yes/NO]: ", false)) return;
    if (type_ == "MULTI_NEURON")
      throw Refusal("NotImplementedError", "FSDP does not run on Neuron devices");
    type_ = "FSDP";
    const bool version_1 = ask_.menu("What should be your FSDP version? [2]: ", {"1", "2"}, 1) == 0;
    fsdp_.set("fsdp_version", version_1 ? 1 : 2);
    if (version_1)
      fsdp_.set("fsdp_reshard_after_forward",
                ask_.choice("What should be your sharding strategy?",
                            {"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD",
                             "HYBRID_SHARD_ZERO2"}));
    else
      fsdp_yes("fsdp_reshard_after_forward",
               "Do you want to enable resharding after forward? [YES/no]: ", true);
    fsdp_yes("fsdp_offload_params",
             "Do you want to offload parameters and gradients to CPU? [yes/NO]: ", false);
    wrapping();
    if (version_1)
      fsdp_.set("fsdp_backward_prefetch",
                ask_.choice("What should be your FSDP's backward prefetch policy?",
                            {"BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH"}));
    fsdp_.set(
        "fsdp_state_dict_type",
        ask_.choice("What should be your FSDP's state dict type?",
                    version_1 ? Options{"FULL_STATE_DICT", "LOCAL_STATE_DICT", "SHARDED_STATE_DICT"}
                              : Options{"SHARDED_STATE_DICT", "FULL_STATE_DICT"}));
    if (version_1) {
      fsdp_yes("fsdp_forward_prefetch",
               "Do you want to enable FSDP's forward prefetch policy? [yes/NO]: ", false);
      fsdp_yes("fsdp_use_orig_params",
               "Do you want to enable FSDP's `use_orig_params` feature? [YES/no]: ", true);
    }
    loading(version_1);
    fsdp_yes("fsdp_activation_checkpointing",
             "Do you want to enable FSDP activation checkpointing? [yes/NO]: ", false);
  }

  void fsdp_yes(std::string_view key, const std::string& question, bool otherwise) {
    fsdp_.set(key, ask_.yes(question, otherwise));
  }

  void loading(bool version_1) {
    fsdp_yes("fsdp_cpu_ram_efficient_loading",
             "Do you want to enable CPU RAM efficient model loading? Only applicable for "
             "\xF0\x9F\xA4\x97 Transformers models. [YES/no]: ",
             true);
    if (!version_1) return;
    if (fsdp_.at("fsdp_cpu_ram_efficient_loading").boolean())
      fsdp_.set("fsdp_sync_module_states", true);
    else
      fsdp_yes("fsdp_sync_module_states",
               "Do you want each individually wrapped FSDP unit to broadcast module parameters "
               "from rank 0 at the start? [YES/no]: ",
               true);
  }

  void wrapping() {
    const std::string policy =
        ask_.choice("What should be your auto wrap policy?",
                    {"TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP"});
    fsdp_.set("fsdp_auto_wrap_policy", policy);
    if (policy == "SIZE_BASED_WRAP")
      fsdp_.set("fsdp_min_num_params",
                ask_.number("What should be your FSDP's minimum number of parameters for Default "
                            "Auto Wrapping Policy? [1e8]: ",
                            100'000'000));
    if (policy != "TRANSFORMER_BASED_WRAP") return;
    if (ask_.yes("Do you want to use the model's `_no_split_modules` to wrap. Only applicable for "
                 "\xF0\x9F\xA4\x97 Transformers [yes/NO]: ",
                 false))
      return;
    fsdp_.set("fsdp_transformer_layer_cls_to_wrap",
              ask_.text("Specify the comma-separated list of transformer layer class names "
                        "(case-sensitive) to wrap ,e.g, :"
                        "`BertLayer`, `GPTJBlock`, `T5Block`, "
                        "`BertLayer,BertEmbeddings,BertSelfOutput` ...? : "));
  }

  void parallelism() {
    if (!ask_.yes("Do you want to use the parallelism config? [yes/NO]: ", false)) return;
    const auto size = [&](std::string_view key, const char* question) {
      parallelism_.set(fmt::format("parallelism_config_{}", key), ask_.number(question, 1));
    };
    size("dp_replicate_size", "What is the data parallelism replicate size? [1]: ");
    size("dp_shard_size", "What is the FSDP shard size? [1]: ");
    size("tp_size", "What is the tensor parallelism size? [1]: ");
    size("cp_size", "What is the context parallelism size? [1]: ");
    if (above_one(parallelism_.at("parallelism_config_cp_size")))
      parallelism_.set("parallelism_config_cp_comm_strategy",
                       ask_.choice("What is the compute parallelism communication strategy?",
                                   {"allgather", "alltoall"}));
  }

  void megatron() {
    if (!ask_.yes("Do you want to use Megatron-LM ? [yes/NO]: ", false)) return;
    type_ = "MEGATRON_LM";
    const auto set = [&](const char* key, ConfigValue value) {
      megatron_.set(fmt::format("megatron_lm_{}", key), std::move(value));
    };
    const ConfigValue tensor = ask_.number("What is the Tensor Parallelism degree/size? [1]:", 1);
    set("tp_degree", tensor);
    if (above_one(tensor))
      set("sequence_parallelism",
          ask_.yes("Do you want to enable Sequence Parallelism? [YES/no]: ", true));
    const ConfigValue pipeline =
        ask_.number("What is the Pipeline Parallelism degree/size? [1]:", 1);
    set("pp_degree", pipeline);
    if (above_one(pipeline))
      set("num_micro_batches", ask_.number("What is the number of micro-batches? [1]:", 1));
    set("recompute_activations",
        ask_.yes("Do you want to enable selective activation recomputation? [YES/no]: ", true));
    set("use_distributed_optimizer",
        ask_.yes(
            "Do you want to use distributed optimizer "
            "which shards optimizer state and gradients across data parallel ranks? [YES/no]: ",
            true));
    set("gradient_clipping",
        ask_.number(
            "What is the gradient clipping value based on global L2 Norm (0 to disable)? [1.0]: ",
            1.0, true));
  }

  void processes() {
    if (type_ != "NO") {
      std::string kind = type_.starts_with("MULTI_") ? type_.substr(6) + "(s)" : "GPU(s)";
      if (type_ == "MULTI_CPU") kind = "processes";
      if (type_ == "MULTI_NEURON") kind = "NEURON cores";
      processes_ = ask_.number(
          fmt::format("How many {} should be used for distributed training? [1]:", kind), 1);
    }
    if (type_ == "MULTI_GPU" && machines_ == ConfigValue(1) && processes_ == ConfigValue(1))
      throw Refusal("ValueError", "MULTI_GPU with one GPU on one machine");
    if ((is_multi_device() || type_ == "NO") && !cpu_)
      gpu_ids_ = ask_.text(
          "What GPU(s) (by id) should be used for training on this machine as a comma-separated "
          "list? [all]:",
          "all");
    if ((type_ == "NO" || type_ == "MULTI_GPU") && !cpu_)
      affinity_ = ask_.yes(
          "Would you like to enable numa efficiency? (Currently only supported on NVIDIA "
          "hardware). [yes/NO]: ",
          false);
  }

  void precision() {
    if (deepspeed_file_) return;
    precision_ = ask_.choice("Do you wish to use mixed precision?", {"no", "fp16", "bf16", "fp8"});
    if (precision_.is("fp8"))
      throw Refusal("ValueError", "fp8 needs torchao, Transformer Engine or MS-AMP");
  }

  /// BaseConfig.to_dict: None and empty dicts are left out.
  ConfigValue config() const {
    const ConfigValue all = ConfigValue::dict({{"compute_environment", "LOCAL_MACHINE"},
                                               {"distributed_type", type_},
                                               {"mixed_precision", precision_},
                                               {"use_cpu", cpu_},
                                               {"debug", debug_},
                                               {"num_processes", processes_},
                                               {"machine_rank", rank_},
                                               {"num_machines", machines_},
                                               {"gpu_ids", gpu_ids_},
                                               {"main_process_ip", ip_},
                                               {"main_process_port", port_},
                                               {"rdzv_backend", rendezvous_},
                                               {"same_network", same_network_},
                                               {"main_training_function", "main"},
                                               {"enable_cpu_affinity", affinity_},
                                               {"deepspeed_config", deepspeed_},
                                               {"fsdp_config", fsdp_},
                                               {"parallelism_config", parallelism_},
                                               {"megatron_lm_config", megatron_},
                                               {"mpirun_config", mpirun_},
                                               {"downcast_bf16", "no"},
                                               {"tpu_use_cluster", false},
                                               {"tpu_use_sudo", false},
                                               {"tpu_env", ConfigValue::list()},
                                               {"dynamo_config", dynamo_}});
    ConfigValue kept = ConfigValue::dict();
    for (const ConfigValue::Entry& entry : all.entries())
      if (!entry.value.is_null() && !(entry.value.is_dict() && entry.value.size() == 0))
        kept.set(entry.key, entry.value);
    return kept;
  }

  Asker ask_;
  std::string type_;
  ConfigValue machines_ = 1, processes_ = 1, rank_ = 0;
  ConfigValue ip_, port_, gpu_ids_, precision_;
  std::string rendezvous_ = "static";
  bool same_network_ = true, debug_ = false, cpu_ = false, affinity_ = false;
  bool deepspeed_file_ = false;
  ConfigValue deepspeed_ = ConfigValue::dict(), fsdp_ = ConfigValue::dict(),
              parallelism_ = ConfigValue::dict(), megatron_ = ConfigValue::dict(),
              mpirun_ = ConfigValue::dict(), dynamo_ = ConfigValue::dict();
};

}  // namespace

Interview interview(const Answer& answer) { return Questionnaire(answer).run(); }

}  // namespace shardscope::accelerate
