#include "cli/plan_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "cli/allocator_option.h"
#include "cli/lengths_option.h"
#include "core/base/error.h"

namespace shardscope {
namespace {

/// Of --strategy: pipelines, whatever is sharded inside.
constexpr std::string_view pipeline_word = "pipeline";
/// Of --runtime: torchtitan's loop, which is no runtime of its own beside FSDP2.
constexpr std::string_view torchtitan_word = "torchtitan";

void declare_training(Command& command, PlanOptions& options) {
  JobOptions& job = options.job;
  command.heading("What is trained");
  command.option("--model", job.model, {"PATH", "Hugging Face folder or config.json"});
  command.option("--tokens-per-batch", job.tokens_per_batch,
                 {"N", "tokens of one optimizer step, summed over all ranks"});
  command.option("--seq", job.seq,
                 {"T", "tokens of a sequence (default: 2048, or what the model allows)"});
  declare_lengths_option(command, options.lengths);
  command.option("--optimizer", job.optimizer, {"adamw|adam|sgd", "adamw unless given"});
  command.option("--clip", job.clip, {"NORM", "largest gradient norm; 0 turns clipping off"});
  command.option(
      "--precision", job.precision,
      {"LIST", "fp32, bf16, bf16_mixed, fp16_mixed (default: the file's, or fp32 and bf16_mixed)"});
}

void declare_space(Command& command, PlanOptions& options) {
  command.heading("What is compared");
  command.option(
      "--runtime", options.runtimes,
      {"LIST",
       "native, fsdp1, fsdp2, ddp, deepspeed, torchtitan (default: on GPUs all but native and "
       "torchtitan, on CPUs native). torchtitan: Llama in its loop, over the axes pipeline, "
       "replicate, shard, context and tensor. Alone: megatron, over tensor, pipeline, virtual "
       "stages, context, expert and data parallelism, written as its command line"});
  command.option(
      "--strategy", options.job.strategy,
      {"LIST",
       "no_shard, zero1, shard_grad_op, full_shard, hybrid_shard, hybrid_shard_zero2, and "
       "pipeline: those of native, and of fsdp2 as torchtitan runs them, with any of these inside "
       "(default: all but pipelines of fsdp2)"});
  command.option("--accelerate", options.sharding.accelerate,
                 {"FILE",
                  "your accelerate file: its place among the strategies, and the smallest change "
                  "that improves it"});
  command.option("--deepspeed", options.sharding.deepspeed,
                 {"FILE", "your DeepSpeed file, in the same way"});
  command.option(
      "--batch", options.job.batch,
      {"B", "sequences of a micro-batch in that file's run (default: all sequences of a rank)"});
  command.option("--objective", options.objective,
                 {"time|memory|cost",
                  "what is minimised (default: time). cost: GPU-hours for the same tokens, on at "
                  "most as many ranks"});
  command.option("--layouts", options.layouts,
                 {"usual|all",
                  "layouts of torchtitan to weigh (default: usual). all: also checkpointing of "
                  "every k-th block, up to 8 "
                  "stages a rank, and other splits of the layers; may take minutes"});
  command.option("--tensor", options.tensor,
                 {"LIST",
                  "also weighs fsdp2 with an axis tensor of these sizes, such as 2,4,8: "
                  "transformers' tp_plan inside its fsdp_plan (default: none)"});
  command.option("--places", options.places, {"N", "strategies to show (default: 5)"});
}

void declare_goals(Command& command, PlanOptions& options) {
  command.heading("What the whole training may take");
  command.option("--train-tokens", options.train_tokens,
                 {"N", "tokens of the whole training, as in 300e9; days and GPU-hours are shown"});
  command.options("--price-per-gpu-hour", options.prices,
                  {"P",
                   "price of one GPU for an hour; costs are shown in this currency too. One price, "
                   "or one for each --cluster in their order"});
  command.option("--at-least", options.at_least, {"TOKENS_PER_S", "of the whole job"});
  command.option("--deadline", options.deadline_days, {"DAYS", "for --train-tokens"});
  command.option("--budget", options.budget,
                 {"MONEY", "for --train-tokens, in the currency of --price-per-gpu-hour"});
}

template <class Parse>
auto parsed_list(const std::optional<std::string>& text, std::string_view option,
                 const Parse& parse) {
  std::vector<decltype(parse(std::string_view(), option))> values;
  if (!text) return values;
  for (const std::string& word : words_of_list(*text)) values.push_back(parse(word, option));
  if (values.empty()) throw Error({.where = std::string(option), .what = "the list is empty"});
  return values;
}

std::optional<double> above_0(const std::optional<double>& value, std::string_view option,
                              std::string_view what) {
  constexpr double most = 1e18;
  if (value && !(*value > 0 && *value <= most))
    throw Error({.where = std::string(option),
                 .what = fmt::format("expected {} above 0, got {}", what, *value)});
  return value;
}

void require(bool has, std::string_view option, std::string_view needed, std::string_view what) {
  if (!has)
    throw Error({.where = std::string(option),
                 .what = fmt::format("the {} is not known", what),
                 .way_out = fmt::format("give {}", needed)});
}

double price_in(const std::string& text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || at != end)
    throw Error({.where = "--price-per-gpu-hour",
                 .what = fmt::format("expected a number, got \"{}\"", text)});
  return number;
}

int world_in(std::string_view text) {
  constexpr int most = 1 << 20;
  int number = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || at != end || number < 1 || number > most)
    throw Error({.where = "--world",
                 .what = fmt::format("expected 1 to {}, got \"{}\"", most, text),
                 .way_out = "give a number, or a range as in 8..512"});
  return number;
}

}  // namespace

std::vector<std::string> words_of_list(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    if (const std::string_view word = text.substr(0, comma); !word.empty())
      words.emplace_back(word);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return words;
}

std::vector<Runtime> PlanOptions::asked_runtimes() const {
  if (!runtimes) return {};
  const std::vector<std::string> words = words_of_list(*runtimes);
  if (words.empty()) throw Error({.where = "--runtime", .what = "the list is empty"});
  std::vector<Runtime> asked;
  for (const std::string& word : words) {
    if (std::ranges::count(words, word) > 1)
      throw Error({.where = "--runtime", .what = fmt::format("{} stands twice", word)});
    if (word != torchtitan_word) asked.push_back(parse_runtime(word, "--runtime"));
  }
  return asked;
}

bool PlanOptions::asks_torchtitan() const {
  if (!runtimes) return false;
  const std::vector<std::string> words = words_of_list(*runtimes);
  return std::ranges::find(words, torchtitan_word) != words.end();
}

std::vector<TrainingPrecision> PlanOptions::asked_precisions() const {
  return parsed_list(job.precision, "--precision", parse_training_precision);
}

std::vector<ShardingStrategy> PlanOptions::asked_strategies() const {
  std::vector<ShardingStrategy> strategies;
  if (!job.strategy) return strategies;
  const std::vector<std::string> words = words_of_list(*job.strategy);
  if (words.empty()) throw Error({.where = "--strategy", .what = "the list is empty"});
  for (const std::string& word : words)
    if (word != pipeline_word) strategies.push_back(parse_sharding_strategy(word, "--strategy"));
  return strategies;
}

planner::PipelinesAsked PlanOptions::asked_pipelines() const {
  using enum planner::PipelinesAsked;
  if (!job.strategy) return as_usual;
  const std::vector<std::string> words = words_of_list(*job.strategy);
  const auto named = std::ranges::count(words, pipeline_word);
  if (named == 0) return not_at_all;
  return named == std::ssize(words) ? alone : beside;
}

planner::Objective PlanOptions::asked_objective() const {
  using planner::Objective;
  const std::string text = objective.value_or("time");
  for (const Objective known : {Objective::time, Objective::memory, Objective::cost})
    if (name_of(known) == text) return known;
  throw Error(
      {.where = "--objective", .what = fmt::format("\"{}\" is none of time, memory, cost", text)});
}

bool PlanOptions::asks_all_layouts() const {
  const std::string text = layouts.value_or("usual");
  if (text != "usual" && text != "all")
    throw Error({.where = "--layouts", .what = fmt::format("\"{}\" is none of usual, all", text)});
  if (layouts && !asks_torchtitan())
    throw Error({.where = "--layouts",
                 .what = "it is for torchtitan, and --runtime does not name torchtitan",
                 .way_out = "add torchtitan to --runtime, or leave --layouts out"});
  return text == "all";
}

std::vector<int> PlanOptions::asked_tensor() const {
  std::vector<int> sizes = parsed_list(tensor, "--tensor", [](std::string_view word, auto option) {
    constexpr int most = 1024;
    int size = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), size);
    if (error != std::errc() || end != word.data() + word.size() || size < 1 || size > most)
      throw Error({.where = std::string(option),
                   .what = fmt::format("expected numbers from 1 to {}, got \"{}\"", most, word),
                   .way_out = "give for example 2,4,8"});
    return size;
  });
  std::erase(sizes, 1);
  return sizes;
}

std::optional<std::size_t> PlanOptions::asked_places() const {
  if (!places) return std::nullopt;
  constexpr std::int64_t most = 50;
  if (*places < 1 || *places > most)
    throw Error(
        {.where = "--places", .what = fmt::format("expected 1 to {}, got {}", most, *places)});
  return static_cast<std::size_t>(*places);
}

planner::Goals PlanOptions::asked_goals() const {
  const planner::Goals goals{
      .train_tokens = above_0(train_tokens, "--train-tokens", "tokens"),
      .price_per_gpu_hour = above_0(price, "--price-per-gpu-hour", "a price"),
      .tokens_per_s = above_0(at_least, "--at-least", "tokens a second"),
      .deadline_days = above_0(deadline_days, "--deadline", "days"),
      .budget = above_0(budget, "--budget", "an amount of money")};
  require(!goals.deadline_days || goals.train_tokens, "--deadline", "--train-tokens N",
          "tokens of the whole training");
  require(!goals.budget || goals.train_tokens, "--budget", "--train-tokens N",
          "tokens of the whole training");
  require(!goals.budget || goals.price_per_gpu_hour, "--budget", "--price-per-gpu-hour P",
          "price of a GPU");
  return goals;
}

std::vector<int> PlanOptions::asked_worlds() const {
  if (!worlds) return {};
  const std::size_t dots = worlds->find("..");
  const int first = world_in(worlds->substr(0, dots));
  const int last = dots == std::string::npos ? first : world_in(worlds->substr(dots + 2));
  if (last < first)
    throw Error({.where = "--world",
                 .what = fmt::format("\"{}\" ends before it begins", *worlds),
                 .way_out = fmt::format("give the smaller number first: {}..{}", last, first)});
  std::vector<int> result;
  for (int world = first; world <= last; world *= 2) result.push_back(world);
  return result;
}

std::vector<PlanOptions> PlanOptions::by_cluster() const {
  const std::size_t count = std::max<std::size_t>(1, clusters.size());
  if (prices.size() > 1 && prices.size() != count)
    throw Error({.where = "--price-per-gpu-hour",
                 .what = fmt::format("{} prices for {} cluster{}", prices.size(), count,
                                     count == 1 ? "" : "s"),
                 .way_out = "give one price, or one for each --cluster in their order"});
  if (clusters.size() > 1 && has_file())
    throw Error({.where = "--cluster",
                 .what = "a file runs on one cluster, not on several",
                 .way_out = "give one cluster, or leave the file out"});
  if (clusters.size() > 1 && lengths)
    throw Error({.where = "--lengths",
                 .what = "lengths are shown for one cluster only",
                 .way_out = "give one cluster, or leave --lengths out"});
  std::vector<PlanOptions> each;
  for (std::size_t i = 0; i < count; ++i) {
    PlanOptions one = *this;
    if (i < clusters.size()) {
      if (std::find(clusters.begin(), clusters.begin() + std::ptrdiff_t(i), clusters[i]) !=
          clusters.begin() + std::ptrdiff_t(i))
        throw Error({.where = "--cluster", .what = clusters[i] + " stands twice"});
      one.cluster = clusters[i];
    }
    if (!prices.empty()) one.price = price_in(prices[prices.size() == 1 ? 0 : i]);
    each.push_back(std::move(one));
  }
  return each;
}

void declare_plan_options(Command& command, PlanOptions& options) {
  declare_training(command, options);
  declare_space(command, options);
  declare_recipe_option(command, options.sharding);
  declare_goals(command, options);
  declare_pytorch_options(command, options.pytorch);
  declare_allocator_option(command, options.pytorch.allocator);
  command.heading("Where");
  command.options(
      "--cluster", options.clusters,
      {"FILE|NAME",
       "hardware profile (default: the result of calibrate on this machine). Several: the best "
       "strategy of each, side by side"});
  command.option(
      "--world", options.worlds,
      {"N|A..B",
       "number of ranks (default: the file's, or one node). A..B: A, twice A, and so on; "
       "the answer shows what more ranks gain"});
  command.option("--device-memory", options.device_memory,
                 {"BYTES", "memory of a device, \"40 GiB\" (default: the cluster's)"});
  command.option("--host-memory", options.host_memory,
                 {"BYTES",
                  "memory of a node's host, \"2 TB\"; strategies that offload more are left out "
                  "(default: not checked)"});
  command.option("--ranks-per-node", options.sharding.ranks_per_node,
                 {"N", "ranks of a node in the file's run (default: the cluster's)"});
  declare_margin_option(command, options.margin);
  declare_output_options(command, options.output);
  command.option("-o", options.folder,
                 {"PATH", "folder for the chosen configuration, the answer and a picture"});
  command.elsewhere("--csv", "plan has no such option", "-o FOLDER writes FOLDER/plan.csv");
  command.elsewhere("--html", "plan has no such option", "-o FOLDER writes FOLDER/plan.html");
  command.examples(
      {{"shardscope plan --model examples/models/qwen2_5_0_5b --cluster h100_sxm "
        "--tokens-per-batch 262144 --seq 2048 --accelerate examples/configs/fsdp_v1.yaml",
        "ranks all strategies, and says how to improve that file"},
       {"shardscope plan --model examples/models/llama_3_8b --cluster h100_sxm --world 16 "
        "--tokens-per-batch 524288 --seq 4096 -o plans/llama",
        "writes the best strategy for two nodes as a file for accelerate or DeepSpeed"},
       {"shardscope plan --model examples/models/llama_3_8b --runtime fsdp2,torchtitan --cluster "
        "h100_sxm --world 16 --tokens-per-batch 524288 --seq 8192 --precision bf16_mixed",
        "ranks torchtitan's tensor, context and pipeline parallelism beside FSDP2"},
       {"shardscope plan --runtime megatron --model examples/models/llama_3_8b --cluster h100_sxm "
        "--world 16 --tokens-per-batch 524288 --seq 8192 -o plans/megatron",
        "writes the best layout of Megatron-LM as a script with its command line"},
       {"shardscope plan --model examples/demo/model --runtime native --world 2 "
        "--tokens-per-batch 2048 --seq 128",
        "ranks what `train` can run on this machine after calibrate"},
       {"shardscope plan --model examples/models/llama_3_8b --cluster h100_sxm --world 8..128 "
        "--tokens-per-batch 4194304 --seq 4096 --train-tokens 300e9 --deadline 60",
        "finds strategy and number of GPUs for a training that may take 60 days"},
       {"shardscope plan --model examples/models/gpt2 --cluster h100_sxm --tokens-per-batch "
        "524288 --seq 1024 --objective cost --price-per-gpu-hour 2.5",
        "finds the cheapest strategy and number of GPUs"},
       {"shardscope plan --model examples/models/gpt2 --cluster h100_sxm --cluster a100_80gb "
        "--price-per-gpu-hour 2.5 --price-per-gpu-hour 1.3 --world 8 --tokens-per-batch 524288 "
        "--seq 1024 --train-tokens 10e9",
        "compares two clusters by time, cost and energy"}});
}

}  // namespace shardscope
