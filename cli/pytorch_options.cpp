#include "cli/pytorch_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/refused_option.h"
#include "core/base/error.h"
#include "core/model/family.h"
#include "sim/planner/job_training.h"

namespace shardscope {
namespace {

using eager::AttentionSwitches;
using eager::OptimizerImplementation;
using eager::OptimizerRule;

constexpr std::string_view known_pytorch = "2.15";
using planner::usual_compute_capability;

/// A word of a command line and what it means.
template <class Value>
using Choice = std::pair<std::string_view, Value>;

template <class Value, std::size_t count>
Value chosen(const std::array<Choice<Value>, count>& choices, std::string_view text,
             std::string_view option) {
  std::string names;
  for (const auto& [name, value] : choices) {
    if (name == text) return value;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  throw Error(
      {.where = std::string(option), .what = fmt::format("\"{}\" is none of {}", text, names)});
}

/// torch.backends.cuda.enable_*_sdp: a kernel that cannot run what it is asked gives way to the
/// next.
constexpr std::array<Choice<AttentionSwitches>, 4> sdpa_kernels{
    {{"math", {.flash = false, .efficient = false, .cudnn = false}},
     {"efficient", {.flash = false, .cudnn = false}},
     {"flash", {.cudnn = false}},
     {"cudnn", {}}}};

constexpr std::array<Choice<OptimizerRule>, 5> optimizers{{{"adamw", OptimizerRule::adamw},
                                                           {"adam", OptimizerRule::adam},
                                                           {"sgd", OptimizerRule::sgd},
                                                           {"adafactor", OptimizerRule::adafactor},
                                                           {"muon", OptimizerRule::muon}}};

/// Names of TrainingArguments' optim and of bitsandbytes' classes.
constexpr std::array<Choice<eager::BitsAndBytesOptimizer>, 13> bitsandbytes_optimizers{
    {{"adamw_8bit", {.bits = 8}},
     {"adamw_bnb_8bit", {.bits = 8}},
     {"adamw_bnb_32bit", {.bits = 32}},
     {"paged_adamw", {.bits = 32, .paged = true}},
     {"paged_adamw_32bit", {.bits = 32, .paged = true}},
     {"paged_adamw_8bit", {.bits = 8, .paged = true}},
     {"paged_adamw_bnb_8bit", {.bits = 8, .paged = true}},
     {"lion_8bit", {.bits = 8, .one_moment = true}},
     {"lion_32bit", {.bits = 32, .one_moment = true}},
     {"paged_lion_8bit", {.bits = 8, .paged = true, .one_moment = true}},
     {"paged_lion_32bit", {.bits = 32, .paged = true, .one_moment = true}},
     {"rmsprop_bnb_8bit", {.bits = 8, .one_moment = true}},
     {"rmsprop_bnb_32bit", {.bits = 32, .one_moment = true}}}};

constexpr std::array<Choice<OptimizerImplementation>, 3> implementations{
    {{"foreach", OptimizerImplementation::foreach},
     {"fused", OptimizerImplementation::fused},
     {"loop", OptimizerImplementation::loop}}};

constexpr std::array<Choice<bool>, 2> on_off{{{"on", true}, {"off", false}}};

/// Who makes the loss, and of what.
struct LossChoice {
  eager::LossPlace place = eager::LossPlace::in_model;
  eager::LanguageLoss of_model = eager::LanguageLoss::upcast;
  bool float_logits = false;
  int chunks = 0;
  eager::Objective objective = eager::Objective::next_token;
  /// ms-swift's use_logits_to_keep: logits of a prompt are not made.
  bool keeps_logits = false;
};
constexpr std::array<Choice<LossChoice>, 10> losses{
    {{"model", {}},
     {"cut", {.of_model = eager::LanguageLoss::cut}},
     {"tiles", {.of_model = eager::LanguageLoss::tiled, .objective = eager::Objective::supervised}},
     {"dpo", {.of_model = eager::LanguageLoss::tiled, .objective = eager::Objective::preference}},
     {"dpo-logits",
      {.place = eager::LossPlace::after_model, .objective = eager::Objective::preference}},
     {"dpo-swift",
      {.place = eager::LossPlace::after_model,
       .objective = eager::Objective::preference,
       .keeps_logits = true}},
     {"kept", {.keeps_logits = true}},
     {"grpo", {.of_model = eager::LanguageLoss::tiled, .objective = eager::Objective::policy}},
     {"outside", {.place = eager::LossPlace::after_model}},
     {"float", {.place = eager::LossPlace::after_model, .float_logits = true}}}};

/// "chunks:8" or one of the names.
LossChoice loss_of(std::string_view text) {
  constexpr std::string_view prefix = "chunks:";
  if (!text.starts_with(prefix)) return chosen(losses, text, "--loss");
  constexpr int most = 1024;
  int chunks = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + prefix.size(), end, chunks);
  if (read.ec != std::errc() || read.ptr != end || chunks < 2 || chunks > most)
    throw Error({.where = "--loss",
                 .what = fmt::format("\"{}\" is no number of chunks", text),
                 .way_out = fmt::format("give chunks:2 to chunks:{}", most)});
  return {.place = eager::LossPlace::after_model, .chunks = chunks};
}

constexpr std::array<Choice<eager::ReferencePolicy>, 3> references{
    {{"none", eager::ReferencePolicy::none},
     {"copy", eager::ReferencePolicy::copy},
     {"adapter-off", eager::ReferencePolicy::without_adapter}}};

/// What TRL's trainers ask of the head, and whose log-probabilities they compare with.
void apply_objective(const PytorchOptions& options, const LossChoice& loss,
                     eager::TrainingSetup& setup) {
  using enum eager::Objective;
  const bool adapts = options.fine_tuning.peft.has_value();
  const eager::Objective objective = loss.objective;
  const bool keeps_logits = loss.keeps_logits;
  setup.loop.objective = objective;
  if (objective == next_token || objective == supervised) {
    if (options.reference)
      throw Error({.where = "--reference",
                   .what = "only --loss dpo, dpo-logits, dpo-swift and grpo have a reference",
                   .way_out = "give one of them, or leave it out"});
  } else {
    const std::string_view usual = objective == policy ? "none" : adapts ? "adapter-off" : "copy";
    setup.loop.reference =
        chosen(references, options.reference.value_or(std::string(usual)), "--reference");
  }
  if (setup.loop.reference == eager::ReferencePolicy::without_adapter && !adapts)
    throw Error({.where = "--reference",
                 .what = "there is no adapter that could be off",
                 .way_out = "give --peft, or --reference copy"});
  if (options.prompt && setup.model.loss != eager::LanguageLoss::tiled && !keeps_logits)
    throw Error({.where = "--prompt",
                 .what = "only --loss tiles, dpo, dpo-swift, grpo and kept skip tokens of a prompt",
                 .way_out = "give one of them, or leave it out"});
  if (options.prompt && (*options.prompt < 0 || *options.prompt >= setup.loop.length))
    throw Error(
        {.where = "--prompt",
         .what = fmt::format("a prompt of {} tokens does not fit into sequences of {} tokens",
                             *options.prompt, setup.loop.length),
         .way_out = fmt::format("give 0 to {}, or a longer --seq", setup.loop.length - 1)});
  setup.loop.prompt = options.prompt.value_or(0);
  // One more than the answers have: prepare_logits_to_keep of ms-swift's trainers/mixin.py.
  if (keeps_logits) setup.model.first_logit = std::max<std::int64_t>(setup.loop.prompt, 1) - 1;
  setup.model.tiled = {.entropy = true,
                       .mean_logits = objective == preference,
                       .top1 = objective != policy,
                       .prompt = setup.loop.prompt};
}

/// Unsloth's models compute the loss themselves, of TRL's SFTTrainer, too.
LossChoice loss_under_unsloth(const PytorchOptions& options, LossChoice loss) {
  if (loss.objective == eager::Objective::supervised) return {};
  if (loss.objective == eager::Objective::next_token) return loss;
  throw Error(
      {.where = "--unsloth",
       .what = fmt::format("Unsloth's trainer for --loss {} is not modelled", *options.loss),
       .way_out = "leave out --unsloth, or give --loss model"});
}

void apply_loss(const PytorchOptions& options, const Model& model, eager::TrainingSetup& setup) {
  LossChoice loss = loss_of(options.loss.value_or("model"));
  if (options.fine_tuning.uses_unsloth()) loss = loss_under_unsloth(options, loss);
  setup.loop.loss = loss.place;
  setup.loop.scores_kept_logits =
      loss.keeps_logits && loss.objective == eager::Objective::preference;
  setup.model.loss = loss.of_model;
  setup.model.float_logits = loss.float_logits;
  if (loss.chunks > 0) setup.model.logit_chunks = setup.loop.loss_chunks = loss.chunks;
  apply_objective(options, loss, setup);
  // ms-swift's files ask for it of every model; without a prompt all logits are made anyway.
  const bool keeps_all = options.by_trainer && setup.model.first_logit == 0;
  const bool is_special = loss.of_model == eager::LanguageLoss::cut ||
                          loss.objective != eager::Objective::next_token || loss.chunks > 0 ||
                          (loss.keeps_logits && !keeps_all);
  if (is_special && !eager::makes_language_loss(model))
    throw Error({.where = "--loss",
                 .what = fmt::format("{} is not modelled for {}", *options.loss, model.class_name),
                 .way_out = "give --loss model or outside"});
}

/// Of a family without it, transformers raises where it is asked for.
void check_sdpa(std::string_view attention, const Model& model) {
  if (has_sdpa(model)) return;
  throw Error({.where = "--attention",
               .what = fmt::format("{} has no scaled_dot_product_attention in transformers, of "
                                   "which {} is a kernel",
                                   model.family, attention),
               .way_out = "leave it out: the attention is eager"});
}

void apply_attention(const PytorchOptions& options, const GpuKind& gpu, const Model& model,
                     eager::TrainingSetup& setup) {
  AttentionSwitches switches;
  setup.model.has_sdpa = has_sdpa(model);
  setup.model.attention = eager::usual_settings(model).attention;
  if (options.attention == "eager") {
    setup.model.attention = eager::AttentionImplementation::eager;
  } else if (options.attention) {
    switches = chosen(sdpa_kernels, *options.attention, "--attention");
    check_sdpa(*options.attention, model);
  } else if (setup.model.attention == eager::AttentionImplementation::eager) {
    setup.assumed.push_back(fmt::format(
        "eager attention: transformers has no other for {} (--attention)", model.family));
  }
  if (!gpu.compute_capability)
    setup.assumed.push_back(fmt::format("GPUs of compute capability {}.{} (--cluster)",
                                        usual_compute_capability / 10,
                                        usual_compute_capability % 10));
  setup.session = {.compute_capability = gpu.compute_capability.value_or(usual_compute_capability),
                   .attention = switches};
}

/// torchtitan's Attention stands in the place of LlamaAttention; its other layers run the same
/// operators as those of transformers.
void apply_layers(const PytorchOptions& options, const Model& model, eager::TrainingSetup& setup) {
  constexpr std::string_view name = "--layers";
  constexpr std::array<Choice<bool>, 2> layers{{{"transformers", false}, {"torchtitan", true}}};
  setup.model.torchtitan_attention = chosen(layers, options.layers.value_or("transformers"), name);
  if (!setup.model.torchtitan_attention) return;
  if (model.family != "llama" || setup.model.attention == eager::AttentionImplementation::eager)
    throw Error({.where = std::string(name),
                 .what = fmt::format("torchtitan's attention is Llama's, over "
                                     "scaled_dot_product_attention; the model is a {}",
                                     model.family),
                 .way_out = "give a Llama without --attention eager, or leave it out"});
}

void apply_optimizer(const PytorchOptions& options, const JobOptions& given, const Job& job,
                     eager::TrainingSetup& setup) {
  eager::OptimizerSettings& optimizer = setup.loop.optimizer;
  const auto* zero = std::get_if<eager::DeepSpeedSetup>(&setup.runtime);
  setup.loop.groups_by_decay =
      options.by_trainer && (zero == nullptr || !zero->settings.has_own_optimizer);
  if (is_of_bitsandbytes(given.optimizer)) {
    planner::set_optimizer(job.optimizer, OptimizerRule::adamw, optimizer);
    optimizer.bitsandbytes = chosen(bitsandbytes_optimizers, *given.optimizer, "--optimizer");
    optimizer.bitsandbytes->embeddings_in_float = options.by_trainer;
    if (options.optimizer_implementation)
      throw Error(
          {.where = "--optimizer-implementation",
           .what = fmt::format("{} is bitsandbytes', which has one of its own", *given.optimizer),
           .way_out = "leave it out"});
    return;
  }
  const OptimizerRule rule = given.optimizer ? chosen(optimizers, *given.optimizer, "--optimizer")
                             : job.optimizer.kind == OptimizerKind::sgd ? OptimizerRule::sgd
                                                                        : OptimizerRule::adamw;
  planner::set_optimizer(job.optimizer, rule, optimizer);
  if ((rule == OptimizerRule::adafactor || rule == OptimizerRule::muon) &&
      options.optimizer_implementation)
    throw Error({.where = "--optimizer-implementation",
                 .what = fmt::format("{} updates one parameter after the other", *given.optimizer),
                 .way_out = "leave it out"});
  if (options.optimizer_implementation)
    optimizer.implementation =
        chosen(implementations, *options.optimizer_implementation, "--optimizer-implementation");
}

/// Without DDP: its hooks would run after the update.
void apply_optimizer_in_backward(const PytorchOptions& options, eager::TrainingSetup& setup) {
  constexpr std::string_view name = "--optimizer-in-backward";
  if (!chosen(on_off, options.optimizer_in_backward.value_or("off"), name)) return;
  const bool one = setup.world == 1 && std::holds_alternative<eager::PlainSetup>(setup.runtime);
  if (!one || setup.loop.micro_batches > 1 || setup.loop.clips)
    throw Error(
        {.where = std::string(name),
         .what =
             "each gradient is freed right after the update of its parameter, but several ranks, "
             "several micro-batches and clipping need all gradients together",
         .way_out = "give --runtime ddp --world 1 --accumulate 1 --clip 0, or leave it out"});
  setup.loop.steps_in_backward = true;
}

void apply_activation_offloading(const PytorchOptions& options, const JobOptions& given,
                                 eager::TrainingSetup& setup) {
  constexpr std::string_view name = "--activation-offloading";
  if (!chosen(on_off, options.activation_offloading.value_or("off"), name)) return;
  if (given.checkpointing.value_or("none") == "none")
    throw Error({.where = std::string(name),
                 .what = "torchtune refuses it without checkpointing",
                 .way_out = "give --checkpointing full, or leave it out"});
  setup.loop.offloads_activations = true;
}

/// transformers 5.24 optimization.py: the states of a matrix are plain tensors.
void check_adafactor(const eager::TrainingSetup& setup) {
  if (setup.loop.optimizer.rule != OptimizerRule::adafactor) return;
  if (std::holds_alternative<eager::Fsdp2Setup>(setup.runtime))
    throw Error({.where = "--optimizer",
                 .what = "FSDP2 makes every parameter a DTensor, and Adafactor adds its gradients "
                         "to plain tensors: its first step raises",
                 .way_out = "give adamw, or shard with FSDP1 (--runtime fsdp1)"});
}

/// Muon needs whole matrices. axolotl 067b021, utils/schemas/validation.py,
/// check_muon_deepspeed_fsdp, refuses it under DeepSpeed and FSDP1, too.
void check_muon(const eager::TrainingSetup& setup) {
  if (setup.loop.optimizer.rule != OptimizerRule::muon) return;
  const bool is_whole = std::holds_alternative<eager::PlainSetup>(setup.runtime) ||
                        std::holds_alternative<eager::ddp::Options>(setup.runtime);
  if (is_whole && !setup.loop.steps_in_backward) return;
  throw Error(
      {.where = "--optimizer",
       .what = "Muon is predicted only where every rank has whole matrices and updates them after "
               "the backward",
       .way_out = "give --runtime ddp without --optimizer-in-backward, or adamw"});
}

/// DeepSpeed takes a client's optimizer over its flat masters. Source: 0.19.8 engine.py,
/// _configure_optimizer.
void check_offload(const eager::DeepSpeedSetup& zero) {
  if (zero.settings.offload_optimizer.device == OffloadDevice::none) return;
  throw Error({.where = "--optimizer",
               .what = "DeepSpeed with offload_optimizer raises for a client's optimizer that is "
                       "not its own Adam of the host (zero_force_ds_cpu_optimizer)",
               .way_out = "give adamw, or remove offload_optimizer"});
}

/// FSDP2's parameters are DTensors. bitsandbytes 0.50's updates raise on them under PyTorch 2.15.
void check_engine(const eager::TrainingSetup& setup) {
  check_adafactor(setup);
  check_muon(setup);
  const bool is_clients =
      setup.loop.optimizer.bitsandbytes || setup.loop.optimizer.rule == OptimizerRule::adafactor;
  if (const auto* zero = std::get_if<eager::DeepSpeedSetup>(&setup.runtime); zero && is_clients)
    check_offload(*zero);
  if (!setup.loop.optimizer.bitsandbytes) return;
  if (std::holds_alternative<eager::Fsdp2Setup>(setup.runtime))
    throw Error({.where = "--optimizer",
                 .what = "FSDP2 makes every parameter a DTensor, and bitsandbytes' optimizers take "
                         "no DTensor: their first step raises",
                 .way_out = "give adamw, or shard with FSDP1 (--runtime fsdp1)"});
}

/// A row of several sequences: FlashAttention is told where each ends, SDPA takes a mask.
void flatten(const PytorchOptions& options, eager::TrainingSetup& setup) {
  const bool is_supervised = setup.loop.objective == eager::Objective::next_token ||
                             setup.loop.objective == eager::Objective::supervised;
  if (!options.flattens || !is_supervised) return;
  setup.loop.flattens = true;
  setup.model.packed = options.attention != "flash";
  if (setup.model.packed && !options.fine_tuning.uses_unsloth())
    setup.assumed.emplace_back(
        "a row of packed sequences gets a mask of its length squared, where the model takes "
        "position ids: FlashAttention needs none (attn_implementation: flash_attention_2)");
}

/// An engine counts micro-batches and clips itself.
void apply_to_engine(const JobOptions& given, const Job& job, eager::TrainingSetup& setup) {
  auto* zero = std::get_if<eager::DeepSpeedSetup>(&setup.runtime);
  if (!zero) return;
  zero->settings.accumulation_steps = setup.loop.micro_batches;
  if (given.job || given.clip) zero->settings.gradient_clipping = job.clip;
}

/// What apply_liger_kernel_to_* is told to patch.
eager::LigerKernels liger_kernels_of(const PytorchOptions& options) {
  using eager::LigerKernels;
  constexpr std::array<Choice<bool LigerKernels::*>, 4> kernels{
      {{"rope", &LigerKernels::rope},
       {"rms_norm", &LigerKernels::rms_norm},
       {"swiglu", &LigerKernels::swiglu},
       {"fused_linear_cross_entropy", &LigerKernels::fused_linear_cross_entropy}}};
  const std::string names = options.liger.value_or("off");
  if (names == "off") return {};
  if (names == "on") return eager::all_liger_kernels;
  LigerKernels result;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find('+', begin), names.size());
    result.*chosen(kernels, std::string_view(names).substr(begin, end - begin), "--liger") = true;
    begin = end + 1;
  }
  return result;
}

void apply_liger(const PytorchOptions& options, const Model& model, eager::TrainingSetup& setup) {
  const eager::LigerKernels kernels = liger_kernels_of(options);
  if (!kernels.any()) return;
  const eager::LigerSupport support = eager::liger_support(model.family);
  if (support == eager::LigerSupport::none)
    return setup.assumed.push_back(
        fmt::format("no kernels of Liger: it has none for {}", model.family));
  if (support == eager::LigerSupport::unknown)
    return setup.assumed.push_back(
        fmt::format("no kernels of Liger, which need less memory: those for {} are not modelled",
                    model.family));
  if (setup.compiled != CompileScope::none)
    throw Error({.where = "--liger",
                 .what = "Liger's kernels inside of compiled code are not predicted",
                 .way_out = "leave out Liger, or compile nothing"});
  if (kernels.fused_linear_cross_entropy && setup.model.loss == eager::LanguageLoss::tiled)
    throw Error({.where = "--liger",
                 .what = "fused_linear_cross_entropy and this --loss both take the head's place",
                 .way_out = "give --liger rope+rms_norm+swiglu, or leave out --loss"});
  if (kernels.fused_linear_cross_entropy && setup.model.first_logit > 0 &&
      setup.loop.loss == eager::LossPlace::in_model)
    throw Error({.where = "--prompt",
                 .what = "fused_linear_cross_entropy of Liger with --loss kept is modelled for "
                         "whole sequences only",
                 .way_out = "leave out --prompt, or give --liger rope+rms_norm+swiglu"});
  if (kernels.rope && setup.model.torchtitan_attention)
    throw Error({.where = "--liger",
                 .what = "torchtitan's attention turns queries and keys itself, without rope",
                 .way_out = "give --liger rms_norm+swiglu, or leave out --layers"});
  setup.model.liger = kernels;
}

void apply_float8(const PytorchOptions& options, eager::TrainingSetup& setup) {
  if (!options.float8) return;
  if (setup.float8.recipe != eager::parallel::Float8Recipe::none)
    throw Error({.where = "--float8",
                 .what = "accelerate's file sets mixed_precision fp8 already",
                 .way_out = "leave one of the two out"});
  setup.float8 = eager::parallel::float8_settings(
      float8_recipe_of(options), std::holds_alternative<eager::Fsdp2Setup>(setup.runtime));
}

}  // namespace

void check_pytorch(const std::optional<std::string>& version) {
  if (!version || *version == known_pytorch ||
      version->starts_with(std::string(known_pytorch) + "."))
    return;
  throw Error({.where = "--pytorch",
               .what = fmt::format("the operators of PyTorch {} are not known", *version),
               .way_out = fmt::format("{} is", known_pytorch)});
}

std::string pytorch_optimizer_names() {
  std::string names;
  for (const auto& [name, rule] : optimizers) names += std::string(name) + ", ";
  for (const auto& [name, settings] : bitsandbytes_optimizers) names += std::string(name) + ", ";
  names.resize(names.size() - 2);
  return names;
}

bool is_of_bitsandbytes(const std::optional<std::string>& optimizer) {
  return optimizer && std::any_of(bitsandbytes_optimizers.begin(), bitsandbytes_optimizers.end(),
                                  [&](const auto& row) { return row.first == *optimizer; });
}

void check_optimizer(const std::string& name) {
  const auto is_named = [&](const auto& row) { return row.first == name; };
  if (std::ranges::any_of(optimizers, is_named) || is_of_bitsandbytes(name)) return;
  throw Error({.where = "--optimizer",
               .what = fmt::format("\"{}\" is none of {}", name, pytorch_optimizer_names()),
               .way_out = "choose the one whose states are most like it"});
}

void PytorchOptions::refuse_under_native() const {
  const std::pair<bool, std::string_view> foreign[] = {
      {pytorch.has_value(), "--pytorch"},
      {attention.has_value(), "--attention"},
      {layers && *layers != "transformers", "--layers"},
      {optimizer_implementation.has_value(), "--optimizer-implementation"},
      {transformers && *transformers != "5", "--transformers"},
      {dropout && *dropout != "off", "--dropout"},
      {loss && *loss != "outside", "--loss"},
      {reference.has_value(), "--reference"},
      {prompt.has_value(), "--prompt"},
      {float8.has_value(), "--float8"},
      {compile.has_value(), "--compile"},
      {expert_load.has_value(), "--expert-load"},
      {liger.has_value(), "--liger"},
      {optimizer_in_backward.has_value(), "--optimizer-in-backward"},
      {activation_offloading.has_value(), "--activation-offloading"},
      {fine_tuning.peft.has_value(), "--peft"},
      {fine_tuning.quantization.has_value(), "--quantization"},
      {fine_tuning.prepare_kbit.has_value(), "--prepare-kbit"},
      {fine_tuning.peft_version.has_value(), "--peft-version"},
      {fine_tuning.base_dtype.has_value(), "--base-dtype"},
      {fine_tuning.trainable_dtype.has_value(), "--trainable-dtype"},
      {fine_tuning.unsloth.has_value(), "--unsloth"},
      {allocator.has_value(), "--allocator"}};
  for (const auto& [is_given, name] : foreign)
    if (is_given)
      throw Error({.where = std::string(name),
                   .what = "is for PyTorch's runtimes, and the default runtime is native, "
                           "Shardscope's own",
                   .way_out = "add --runtime ddp, fsdp1, fsdp2 or deepspeed, or leave it out"});
}

eager::parallel::Float8Recipe float8_recipe_of(const PytorchOptions& options) {
  using enum eager::parallel::Float8Recipe;
  constexpr std::array<Choice<eager::parallel::Float8Recipe>, 2> recipes{
      {{name_of(tensorwise), tensorwise}, {name_of(rowwise), rowwise}}};
  return options.float8 ? chosen(recipes, *options.float8, "--float8") : none;
}

CompileScope compile_scope_of(const PytorchOptions& options) {
  using enum CompileScope;
  constexpr std::array<Choice<CompileScope>, 3> scopes{{{name_of(blocks), blocks},
                                                        {name_of(blocks_and_loss), blocks_and_loss},
                                                        {name_of(model), model}}};
  return options.compile ? chosen(scopes, *options.compile, "--compile") : CompileScope::none;
}

std::string_view compiled_words(CompileScope scope) {
  switch (scope) {
    case CompileScope::none:
      return "";
    case CompileScope::blocks:
      return ", compiled blocks";
    case CompileScope::blocks_and_loss:
      return ", compiled blocks and loss";
    default:
      return ", compiled model";
  }
}

void declare_pytorch_options(Command& command, PytorchOptions& options) {
  command.heading("How PyTorch runs it (with --runtime, --accelerate or --deepspeed)");
  command.option("--pytorch", options.pytorch,
                 {"VERSION", "version whose operators and rules are used; only 2.15 is known"});
  command.option("--transformers", options.transformers,
                 {"4|5", "version whose layout the model has (default: 5)"});
  command.option("--attention", options.attention,
                 {"NAME",
                  "eager, or the first kernel that PyTorch may choose: math, efficient, flash, "
                  "cudnn (default: eager where config.json says so, else cudnn)"});
  command.option("--layers", options.layers,
                 {"transformers|torchtitan|torchtitan-0.3",
                  "torchtitan: a Llama's attention as torchtitan's model.py has it, with complex "
                  "numbers and repeated keys and values (default: transformers). Under --runtime "
                  "torchtitan torchtitan-0.3: a dense Llama or Qwen3 as that version has it, with "
                  "FlexAttention and the loss in parts"});
  command.option("--optimizer-implementation", options.optimizer_implementation,
                 {"foreach|fused|loop", "default: foreach, as PyTorch on GPUs"});
  command.option("--dropout", options.dropout, {"on|off", "on: the values of the config"});
  command.option(
      "--loss", options.loss,
      {"model|cut|tiles|dpo|dpo-logits|dpo-swift|grpo|kept|outside|float|chunks:N",
       "model: the model computes the loss from labels. cut: the model computes it by "
       "cut-cross-entropy, without logits. tiles: as TRL's SFTTrainer, of logits in "
       "tiles; dpo, grpo: its DPOTrainer, for which --batch counts pairs, and its "
       "GRPOTrainer's step on given completions. dpo-logits: LLaMA-Factory's DPO, of whole "
       "logits in float32. dpo-swift: ms-swift's, of the logits of the tokens after the prompt. "
       "kept: ms-swift's SFT, of the same logits. outside: cross-entropy after the model. "
       "float: as outside, and the model returns its logits in float32. chunks:N: as "
       "outside, and the model returns its logits in N parts, as for torchtune's "
       "CEWithChunkedOutputLoss (default: model)"});
  command.option(
      "--reference", options.reference,
      {"none|copy|adapter-off",
       "whose log-probabilities --loss dpo, dpo-logits, dpo-swift and grpo compare with. none: no "
       "reference, or one whose log-probabilities were computed before the training. "
       "copy: a second model. adapter-off: the model without its adapter (default: "
       "dpo, dpo-logits, dpo-swift: adapter-off with --peft, else copy; grpo: none)"});
  command.option(
      "--prompt", options.prompt,
      {"N",
       "tokens at the start of each sequence that --loss tiles, dpo, dpo-swift, grpo and kept do "
       "not score (default: 0)"});
  command.option(
      "--float8", options.float8,
      {"tensorwise|rowwise",
       "torchao's float8 in all linear layers but the first and the last: on one device, "
       "under DDP and FSDP2"});
  command.option(
      "--expert-load", options.expert_load,
      {"FACTOR[:LOW-HIGH]",
       "of torchtitan's mixtures of experts: tokens that the busiest rank's experts get, "
       "by the average of the ranks, and the range it may lie in (default: 1)"});
  command.option(
      "--compile", options.compile,
      {"blocks|blocks+loss|model",
       "what torch.compile compiles. blocks: each block by itself. blocks+loss: the loss, too, "
       "as torchtitan and torchtune do (with --loss outside). model: the model with its loss, as "
       "the Trainer does. plan also takes weigh: it ranks eager code and says what compiled blocks "
       "would gain"});
  command.option("--liger", options.liger,
                 {"on|off|NAME+NAME",
                  "Liger's kernels, as use_liger_kernel: rope, rms_norm, swiglu, "
                  "fused_linear_cross_entropy; on: all four"});
  command.option("--optimizer-in-backward", options.optimizer_in_backward,
                 {"on|off",
                  "on: the backward updates each parameter and frees its gradient at once, as "
                  "torchtune's optimizer_in_bwd; on one device"});
  command.option("--activation-offloading", options.activation_offloading,
                 {"on|off",
                  "on: what the forward saves is kept in host memory until the backward, as "
                  "torchtune's enable_activation_offloading; needs --checkpointing"});
  declare_fine_tuning_options(command, options.fine_tuning);
}

void apply_pytorch_options(const PytorchOptions& options, const JobOptions& given, const Job& job,
                           const GpuKind& gpu, const Model& model, eager::TrainingSetup& setup) {
  check_pytorch(options.pytorch);
  refuse_if(options.expert_load.has_value(), "--expert-load",
            "it is known of torchtitan's mixtures of experts only",
            "leave it out, or give --runtime torchtitan");
  if (given.job || given.batch || model.step) setup.loop.batch = job.batch;
  setup.loop.length = job.seq;
  if (given.job || given.accumulate || given.tokens_per_batch)
    setup.loop.micro_batches = job.accumulate;
  if (given.job || given.clip || !std::holds_alternative<eager::DeepSpeedSetup>(setup.runtime))
    setup.loop.clips = job.clip > 0;
  else
    setup.loop.clips =
        std::get<eager::DeepSpeedSetup>(setup.runtime).settings.gradient_clipping > 0;
  apply_loss(options, model, setup);
  setup.model.dropout = chosen(on_off, options.dropout.value_or("on"), "--dropout");
  apply_attention(options, gpu, model, setup);
  apply_layers(options, model, setup);
  apply_optimizer(options, given, job, setup);
  apply_float8(options, setup);
  if (options.compile) setup.compiled = compile_scope_of(options);
  if (setup.compiled == CompileScope::blocks_and_loss &&
      setup.loop.loss == eager::LossPlace::in_model)
    throw Error({.where = "--compile",
                 .what = "blocks+loss compiles a loss after the model, and the model computes it",
                 .way_out = "give --loss outside, or --compile blocks or model"});
  setup.compiled = scope_for_class(setup.compiled, model.class_name);
  apply_liger(options, model, setup);
  if (setup.compiled == CompileScope::model_in_parts)
    setup.assumed.push_back(fmt::format(
        "the memory of eager code, which is too high: transformers breaks the graph of a compiled "
        "{} before its loss",
        model.class_name));
  check_engine(setup);
  apply_to_engine(given, job, setup);
  apply_optimizer_in_backward(options, setup);
  apply_activation_offloading(options, given, setup);
  flatten(options, setup);
}

}  // namespace shardscope
