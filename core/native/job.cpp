#include "core/native/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <regex>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/base/quantities.h"
#include "core/format/json_reader.h"
#include "core/native/job_text.h"
#include "core/native/most_profiled_steps.h"
#include "core/native/native_abilities.h"
#include "core/native/resolved_strategy.h"

namespace shardscope {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t largest_job_bytes = 1 << 20;
constexpr std::int64_t most_steps = 1'000'000'000'000;
constexpr std::int64_t most_sequences = 1 << 20;
constexpr std::int64_t longest_sequence = 1 << 24;
constexpr std::int64_t most_ranks = 1 << 20;
constexpr std::int64_t most_threads = 4096;
constexpr std::size_t longest_pattern = 1000;
constexpr std::size_t most_groups = 64;

/// One key of the file: the reader, the writer and the help all come from here. "lr.peak" is `peak`
/// in the object `lr`.
struct Key {
  std::string_view name;
  std::string_view type;
  std::string_view meaning;
  void (*read)(const JsonValue& value, Job& job);
  Json (*write)(const Job& job);
  bool required = false;
  bool null_is_absent = false;
};

template <class Value>
using Choice = std::pair<Value, std::string_view>;

template <class Value, std::size_t count>
Value choice(const JsonValue& value, const std::array<Choice<Value>, count>& choices) {
  const std::string text = value.string();
  std::string names;
  for (const auto& [candidate, name] : choices) {
    if (text == name) return candidate;
    names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", name);
  }
  throw value.error(fmt::format("expected one of {}, got {}", names, value.dump()));
}

template <class Value, std::size_t count>
std::string name_in(Value value, const std::array<Choice<Value>, count>& choices) {
  for (const auto& [candidate, name] : choices)
    if (candidate == value) return std::string(name);
  return {};
}

constexpr std::array weights_choices{Choice<StartWeights>{StartWeights::automatic, "auto"},
                                     Choice<StartWeights>{StartWeights::random, "random"},
                                     Choice<StartWeights>{StartWeights::pretrained, "pretrained"}};
constexpr std::array token_choices{Choice<TokenFormat>{TokenFormat::automatic, "auto"},
                                   Choice<TokenFormat>{TokenFormat::text, "text"},
                                   Choice<TokenFormat>{TokenFormat::uint16, "uint16"},
                                   Choice<TokenFormat>{TokenFormat::llm_c, "llm_c"}};
constexpr std::array communicator_choices{
    Choice<CommunicatorChoice>{CommunicatorChoice::automatic, "auto"},
    Choice<CommunicatorChoice>{CommunicatorChoice::shared_memory, "shared_memory"},
    Choice<CommunicatorChoice>{CommunicatorChoice::mpi, "mpi"},
    Choice<CommunicatorChoice>{CommunicatorChoice::nccl, "nccl"}};
constexpr std::array record_choices{Choice<ProfileRecords>{ProfileRecords::kernels, "kernels"},
                                    Choice<ProfileRecords>{ProfileRecords::all, "all"}};
constexpr std::array checkpoint_choices{Choice<CheckpointKind>{CheckpointKind::sharded, "sharded"},
                                        Choice<CheckpointKind>{CheckpointKind::full, "full"},
                                        Choice<CheckpointKind>{CheckpointKind::local, "local"}};
constexpr std::array not_finite_choices{Choice<NotFinitePolicy>{NotFinitePolicy::stop, "stop"},
                                        Choice<NotFinitePolicy>{NotFinitePolicy::skip, "skip"},
                                        Choice<NotFinitePolicy>{NotFinitePolicy::rerun, "rerun"}};
constexpr std::array device_choices{Choice<std::string_view>{"auto", "auto"},
                                    Choice<std::string_view>{"cpu", "cpu"},
                                    Choice<std::string_view>{"cuda", "cuda"}};

std::filesystem::path path_of(const JsonValue& value) {
  const std::string text = value.string();
  if (text.empty()) throw value.error("expected a path, got \"\"");
  if (text.find('\0') != std::string::npos) throw value.error("a path has no NUL characters");
  return text;
}

void read_data(const JsonValue& value, Job& job) {
  job.data.clear();
  if (value.is_null()) return;
  if (value.is_string()) return job.data.push_back(path_of(value));
  for (const JsonValue& element : value.elements()) job.data.push_back(path_of(element));
  if (job.data.empty()) throw value.error("expected at least one file or folder, got none");
}

Json write_data(const Job& job) {
  if (job.data.empty()) return nullptr;
  Json paths = Json::array();
  for (const auto& path : job.data) paths.push_back(path.string());
  return paths;
}

void read_betas(const JsonValue& value, Job& job) {
  if (value.size() != 2)
    throw value.error(fmt::format("expected two numbers, got {}", value.size()));
  const auto below_one = [](const JsonValue& beta) {
    const double number = beta.number(0, 1);
    if (number == 1) throw beta.error("expected a number below 1, got 1");
    return number;
  };
  job.optimizer.beta1 = below_one(value[0]);
  job.optimizer.beta2 = below_one(value[1]);
}

void read_clip(const JsonValue& value, Job& job) {
  job.clip = value.is_null() ? 0 : value.number(0);
  if (!value.is_null() && job.clip == 0)
    throw value.error("expected a norm above 0, got 0", "write null for no clipping");
}

void check_pattern(const JsonValue& pattern) {
  const std::string text = pattern.string();
  if (text.size() > longest_pattern)
    throw pattern.error(fmt::format("is longer than {} characters", longest_pattern));
  try {
    const std::regex checked(text);
  } catch (const std::regex_error& error) {
    throw pattern.error(
        fmt::format("{} is no regular expression ({})", pattern.dump(), error.what()));
  }
}

void read_trainable(const JsonValue& value, Job& job) {
  job.trainable.clear();
  for (const JsonValue& pattern : value.elements()) {
    check_pattern(pattern);
    job.trainable.push_back(pattern.string());
  }
}

ParameterGroup parameter_group(const JsonValue& value) {
  for (const auto& [name, member] : value.members())
    if (name != "pattern" && name != "rate" && name != "weight_decay")
      throw member.error("a parameter group has no such key", "use pattern, rate, weight_decay");
  check_pattern(value.at("pattern"));
  ParameterGroup group{.pattern = value.at("pattern").string()};
  if (value.has("rate")) group.rate = value.at("rate").number(0);
  if (value.has("weight_decay")) group.weight_decay = value.at("weight_decay").number(0);
  return group;
}

void read_groups(const JsonValue& value, Job& job) {
  job.optimizer.groups.clear();
  for (const JsonValue& group : value.elements())
    job.optimizer.groups.push_back(parameter_group(group));
  if (job.optimizer.groups.size() > most_groups)
    throw value.error(fmt::format("expected at most {} parameter groups, got {}", most_groups,
                                  job.optimizer.groups.size()));
}

void read_memory_budget(const JsonValue& value, Job& job) {
  job.memory_budget = value.is_null() ? Bytes{} : parse_bytes(value.string(), value.where());
  if (!value.is_null() && job.memory_budget.count == 0)
    throw value.error("expected a size above 0, got " + value.dump(), "write null for no budget");
}

Json write_groups(const Job& job) {
  Json groups = Json::array();
  for (const ParameterGroup& group : job.optimizer.groups) {
    Json& written = groups.emplace_back(Json{{"pattern", group.pattern}, {"rate", group.rate}});
    if (group.weight_decay) written["weight_decay"] = *group.weight_decay;
  }
  return groups;
}

void read_prefetch(const JsonValue& value, Job& job) {
  const std::string text = value.is_boolean() ? (value.boolean() ? "on" : "off") : value.string();
  job.strategy.prefetch = parse_prefetching(text, value.where());
}

Json write_prefetch(const Job& job) {
  const std::string text = text_of(job.strategy.prefetch);
  return text == "on" || text == "off" ? Json(text == "on") : Json(text);
}

void read_pytorch(const JsonValue& value, Job& job) {
  job.pytorch.clear();
  for (const auto& [name, option] : value.members())
    job.pytorch.emplace_back(name, option.string());
}

Json write_pytorch(const Job& job) {
  Json options = Json::object();
  for (const auto& [name, value] : job.pytorch) options[name] = value;
  return options;
}

void read_timeout(const JsonValue& value, Job& job) {
  const Duration timeout = parse_duration(value.string(), value.where());
  if (timeout.ns == 0) throw value.error("expected a time above 0, got " + value.dump());
  job.timeout_s = timeout.seconds();
}

bool is_native(const Job& job) { return job.strategy.runtime == Runtime::native; }

int axis(const JsonValue& value) { return static_cast<int>(value.integer(1, most_ranks)); }

const std::vector<Key>& keys() {
  using V = const JsonValue&;
  const NativeAbilities& native = native_abilities();
  static const std::string strategies = names_of(native.strategies, " | ");
  static const std::string precisions = names_of(native.precisions, " | ");
  static const std::string optimizers = names_of(native.optimizers, " | ");
  static const std::vector<Key> table{
      {"model", "path", "Hugging Face folder or config.json",
       [](V v, Job& j) { j.model = path_of(v); },
       [](const Job& j) -> Json { return j.model.string(); }, true},
      {"weights", "auto | random | pretrained",
       "start weights: drawn by `seed`, or those in the model's folder; auto: these, if there are "
       "any",
       [](V v, Job& j) { j.weights = choice(v, weights_choices); },
       [](const Job& j) -> Json { return name_in(j.weights, weights_choices); }},
      {"data", "path or array of paths",
       "text files or folders (read as bytes), or .bin token files; null: none, for predictions",
       read_data, write_data, true},
      {"tokens", "auto | text | uint16 | llm_c",
       "what the files hold; auto: by their names and headers",
       [](V v, Job& j) { j.token_format = choice(v, token_choices); },
       [](const Job& j) -> Json { return name_in(j.token_format, token_choices); }},
      {"token_start", "integer from 0 to 2^48", "global token offset of the first batch",
       [](V v, Job& j) { j.token_start = v.integer(0, std::int64_t{1} << 48); },
       [](const Job& j) -> Json { return j.token_start; }},
      {"steps", "integer >= 1", "optimizer steps",
       [](V v, Job& j) { j.steps = v.integer(1, most_steps); },
       [](const Job& j) -> Json { return j.steps; }},
      {"batch", "integer >= 1", "sequences per rank and micro-batch",
       [](V v, Job& j) { j.batch = v.integer(1, most_sequences); },
       [](const Job& j) -> Json { return j.batch; }},
      {"seq", "integer >= 1", "tokens of a sequence",
       [](V v, Job& j) { j.seq = v.integer(1, longest_sequence); },
       [](const Job& j) -> Json { return j.seq; }},
      {"accumulate", "integer >= 1", "micro-batches per step",
       [](V v, Job& j) { j.accumulate = static_cast<int>(v.integer(1, most_sequences)); },
       [](const Job& j) -> Json { return j.accumulate; }},
      {"seed", "integer >= 0", "of the random start weights",
       [](V v, Job& j) { j.seed = static_cast<std::uint64_t>(v.integer(0)); },
       [](const Job& j) -> Json { return j.seed; }},
      {"optimizer.kind", optimizers, "the optimizer",
       [](V v, Job& j) { j.optimizer.kind = parse_optimizer(v.string(), v.where()); },
       [](const Job& j) -> Json { return name_of(j.optimizer.kind); }},
      {"optimizer.betas", "[number, number]",
       "adamw: decay of both averages, each from 0 to below 1", read_betas,
       [](const Job& j) -> Json {
         return Json::array({j.optimizer.beta1, j.optimizer.beta2});
       }},
      {"optimizer.eps", "number >= 0", "adamw: added to the root of the second average",
       [](V v, Job& j) { j.optimizer.epsilon = v.number(0); },
       [](const Job& j) -> Json { return j.optimizer.epsilon; }},
      {"optimizer.weight_decay", "number >= 0",
       "on parameters of two and more dimensions; never on biases and norms",
       [](V v, Job& j) { j.optimizer.weight_decay = v.number(0); },
       [](const Job& j) -> Json { return j.optimizer.weight_decay; }},
      {"optimizer.momentum", "number from 0 to 1", "sgd",
       [](V v, Job& j) { j.optimizer.momentum = v.number(0, 1); },
       [](const Job& j) -> Json { return j.optimizer.momentum; }},
      {"optimizer.nesterov", "true | false", "sgd",
       [](V v, Job& j) { j.optimizer.nesterov = v.boolean(); },
       [](const Job& j) -> Json { return j.optimizer.nesterov; }},
      {"optimizer.groups", "array of {\"pattern\", \"rate\", \"weight_decay\"}",
       "parameters whose name holds a match of `pattern`: `rate` times the learning rate, with "
       "this decay; the first that matches",
       read_groups, write_groups},
      {"lr.kind", "constant | linear | hf_cosine | hf_cosine_with_min | nanogpt_cosine",
       "learning-rate schedule",
       [](V v, Job& j) { j.learning_rate.kind = parse_learning_rate_kind(v.string(), v.where()); },
       [](const Job& j) -> Json { return name_of(j.learning_rate.kind); }},
      {"lr.peak", "number >= 0", "largest learning rate",
       [](V v, Job& j) { j.learning_rate.peak = v.number(0); },
       [](const Job& j) -> Json { return j.learning_rate.peak; }},
      {"lr.min", "number >= 0", "hf_cosine_with_min, nanogpt_cosine: the last one",
       [](V v, Job& j) { j.learning_rate.min = v.number(0); },
       [](const Job& j) -> Json { return j.learning_rate.min; }},
      {"lr.warmup", "integer >= 0", "steps until the peak",
       [](V v, Job& j) { j.learning_rate.warmup = v.integer(0, most_steps); },
       [](const Job& j) -> Json { return j.learning_rate.warmup; }},
      {"lr.total", "integer >= 0", "steps until the schedule's end; 0: `steps`",
       [](V v, Job& j) { j.learning_rate.total = v.integer(0, most_steps); },
       [](const Job& j) -> Json { return j.learning_rate.total; }},
      {"lr.cycles", "number >= 0", "hf_cosine, hf_cosine_with_min: waves until the end",
       [](V v, Job& j) { j.learning_rate.cycles = v.number(0); },
       [](const Job& j) -> Json { return j.learning_rate.cycles; }},
      {"clip", "number > 0, or null", "largest gradient norm; null: no clipping", read_clip,
       [](const Job& j) -> Json { return j.clip == 0 ? Json() : Json(j.clip); }},
      {"trainable", "array of regular expressions",
       "parameters whose name holds a match are trained; empty: all", read_trainable,
       [](const Job& j) -> Json { return j.trainable; }},
      {"runtime", "native | fsdp1 | fsdp2 | ddp | deepspeed",
       "whose rules `simulate` follows; `train` runs the native one alone",
       [](V v, Job& j) { j.strategy.runtime = parse_runtime(v.string(), v.where()); },
       [](const Job& j) -> Json { return name_of(j.strategy.runtime); }},
      {"pytorch", "object of strings",
       "further options of `simulate` under PyTorch's runtimes: {\"attention\": \"eager\"}",
       read_pytorch, write_pytorch},
      {"cluster", "name or path, or null",
       "hardware profile of predictions; null: what `calibrate` measured here",
       [](V v, Job& j) { j.cluster = path_of(v).string(); },
       [](const Job& j) -> Json { return j.cluster.empty() ? Json() : Json(j.cluster); }, false,
       true},
      {"strategy", strategies, "what is sharded",
       [](V v, Job& j) { j.strategy.sharding = parse_sharding_strategy(v.string(), v.where()); },
       [](const Job& j) -> Json { return name_of(j.strategy.sharding); }},
      {"mesh.pipeline", "integer >= 1", "pipeline stages",
       [](V v, Job& j) { j.strategy.mesh.pipeline = axis(v); },
       [](const Job& j) -> Json { return j.strategy.mesh.pipeline; }},
      {"mesh.replicate", "integer >= 1", "replicas; all axes 1: as strategy and ranks imply",
       [](V v, Job& j) { j.strategy.mesh.replicate = axis(v); },
       [](const Job& j) -> Json { return j.strategy.mesh.replicate; }},
      {"mesh.shard", "integer >= 1", "ranks that share one copy",
       [](V v, Job& j) { j.strategy.mesh.shard = axis(v); },
       [](const Job& j) -> Json { return j.strategy.mesh.shard; }},
      {"pipeline.schedule",
       "GPipe | 1F1B | Interleaved1F1B | LoopedBFS | InterleavedZeroBubble | ZBVZeroBubble | "
       "DualPipeV",
       "order of a pipeline's forwards and backwards; `accumulate` are its micro-batches",
       [](V v, Job& j) { j.pipeline.schedule = parse_pipeline_schedule(v.string(), v.where()); },
       [](const Job& j) -> Json { return name_of(j.pipeline.schedule); }},
      {"pipeline.checkpoint", "never | except_last | always",
       "micro-batches of GPipe whose stages run their whole forward again, as in PyTorch's Pipe",
       [](V v, Job& j) {
         j.pipeline.checkpoint = parse_pipeline_checkpoint(v.string(), v.where());
       },
       [](const Job& j) -> Json { return name_of(j.pipeline.checkpoint); }},
      {"pipeline.stages", "layers | work | time | memory | numbers of layers such as \"3,4,4,3\"",
       "how layers are dealt out to stages: as many each, as much work each, by predicted time or "
       "memory, or as given",
       [](V v, Job& j) { parse_stages(v.string(), v.where(), j.pipeline); },
       [](const Job& j) -> Json { return text_of_stages(j.pipeline); }},
      {"pipeline.stages_per_rank", "integer from 1 to 1024",
       "of the interleaved schedules and LoopedBFS; 2 of ZBVZeroBubble and DualPipeV",
       [](V v, Job& j) { j.pipeline.stages_per_rank = static_cast<int>(v.integer(1, 1024)); },
       [](const Job& j) -> Json { return j.pipeline.stages_per_rank; }},
      {"wrap", "transformer | none | size:N | blocks:N+N,N+N",
       "units: a transformer block each, one, of N elements, or of the blocks named",
       [](V v, Job& j) { j.strategy.wrap = parse_wrap(v.string(), v.where()); },
       [](const Job& j) -> Json { return text_of(j.strategy.wrap); }},
      {"prefetch", "true | false | \"forward=K,backward_pre=K,backward_post=K,limit=N\"",
       "gather the next units while this one computes; K units ahead, at most N gathered",
       read_prefetch, write_prefetch},
      {"offload", "none | optimizer | all",
       "kept in the host's memory and updated there: optimizer states, or parameters as well",
       [](V v, Job& j) { j.strategy.offload = parse_offload(v.string(), v.where()); },
       [](const Job& j) -> Json { return name_of(j.strategy.offload); }},
      {"checkpointing",
       "none | full | every:K | first:N | selective | selective+first:N | reentrant | reentrant:K",
       "blocks that the backward runs again; selective: all but products and attention of them",
       [](V v, Job& j) {
         j.pytorch_checkpointing = v.string();
         if (is_native(j))
           j.strategy.checkpointing = parse_checkpointing(j.pytorch_checkpointing, v.where());
       },
       [](const Job& j) -> Json {
         return is_native(j) ? Json(text_of(j.strategy.checkpointing))
                             : Json(j.pytorch_checkpointing);
       }},
      {"memory_budget", "size with unit, or null",
       "of the arena: the least recomputation that fits is chosen; null: `checkpointing` says it",
       read_memory_budget,
       [](const Job& j) -> Json {
         return j.memory_budget.count == 0 ? Json() : Json(exact_text(j.memory_budget));
       },
       false, true},
      {"precision", precisions,
       "bf16_mixed: bfloat16 compute beside float32 master, gradients and states; usual on cuda",
       [](V v, Job& j) {
         j.pytorch_precision = v.string();
         if (is_native(j)) j.strategy.precision = parse_precision(j.pytorch_precision, v.where());
         j.precision_given = true;
       },
       [](const Job& j) -> Json {
         return is_native(j) ? Json(name_of(j.strategy.precision)) : Json(j.pytorch_precision);
       }},
      {"reduce_every_micro_batch", "true | false",
       "reduce gradients in every micro-batch, or only in the last",
       [](V v, Job& j) { j.strategy.reduce_every_micro_batch = v.boolean(); },
       [](const Job& j) -> Json { return j.strategy.reduce_every_micro_batch; }},
      {"ranks", "integer >= 1", "processes to start on this host",
       [](V v, Job& j) { j.ranks = static_cast<int>(v.integer(1, most_ranks)); },
       [](const Job& j) -> Json { return j.ranks; }},
      {"communicator", "auto | shared_memory | mpi | nccl",
       "auto: nccl among GPUs; mpi under mpirun and srun, else shared memory",
       [](V v, Job& j) { j.communicator = choice(v, communicator_choices); },
       [](const Job& j) -> Json { return name_in(j.communicator, communicator_choices); }},
      {"device", "auto | cpu | cuda", "where kernels run; auto: on a GPU that is there",
       [](V v, Job& j) { j.device = choice(v, device_choices); },
       [](const Job& j) -> Json { return j.device; }},
      {"threads", "integer >= 0", "compute threads per rank; 0: cores / ranks",
       [](V v, Job& j) { j.threads = static_cast<int>(v.integer(0, most_threads)); },
       [](const Job& j) -> Json { return j.threads; }},
      {"check", "true | false", "checking mode: canaries, poison, allocations counted",
       [](V v, Job& j) { j.check = v.boolean(); }, [](const Job& j) -> Json { return j.check; }},
      {"save_model", "true | false", "write model/ at the end",
       [](V v, Job& j) { j.save_model = v.boolean(); },
       [](const Job& j) -> Json { return j.save_model; }},
      {"profile_steps", "integer from 1 to 1000",
       "last steps whose operations are timed; so are the first two",
       [](V v, Job& j) { j.profile_steps = static_cast<int>(v.integer(1, most_profiled_steps)); },
       [](const Job& j) -> Json { return j.profile_steps; }},
      {"profile.start", "integer >= 0",
       "first step of a window in which everything is measured; 0: only when asked for",
       [](V v, Job& j) { j.profile.start = v.integer(0, most_steps); },
       [](const Job& j) -> Json { return j.profile.start; }},
      {"profile.steps", "integer from 1 to 1000", "of a window, also of one that SIGUSR1 starts",
       [](V v, Job& j) { j.profile.steps = static_cast<int>(v.integer(1, most_profiled_steps)); },
       [](const Job& j) -> Json { return j.profile.steps; }},
      {"profile.every", "integer >= 0",
       "the next window begins so many steps after the one before; 0: there is one",
       [](V v, Job& j) { j.profile.every = v.integer(0, most_steps); },
       [](const Job& j) -> Json { return j.profile.every; }},
      {"profile.records", "kernels | all",
       "what a GPU records in a window: kernels, copies and memory, or the host's calls and waits "
       "too",
       [](V v, Job& j) { j.profile_records = choice(v, record_choices); },
       [](const Job& j) -> Json { return name_in(j.profile_records, record_choices); }},
      {"checkpoint.every", "integer >= 0", "steps between checkpoints; 0: none",
       [](V v, Job& j) { j.checkpoint.every = v.integer(0, most_steps); },
       [](const Job& j) -> Json { return j.checkpoint.every; }},
      {"checkpoint.keep", "integer >= 0", "the newest so many checkpoints stay; 0: all",
       [](V v, Job& j) { j.checkpoint.keep = v.integer(0, most_steps); },
       [](const Job& j) -> Json { return j.checkpoint.keep; }},
      {"checkpoint.keep_every", "integer >= 0",
       "checkpoints of steps that are multiples of it stay, too; 0: none",
       [](V v, Job& j) { j.checkpoint.keep_every = v.integer(0, most_steps); },
       [](const Job& j) -> Json { return j.checkpoint.keep_every; }},
      {"checkpoint.kind", "sharded | full | local",
       "sharded: each rank its part; full: whole tensors, which transformers loads; local: flat "
       "shards as they are",
       [](V v, Job& j) { j.checkpoint.kind = choice(v, checkpoint_choices); },
       [](const Job& j) -> Json { return name_in(j.checkpoint.kind, checkpoint_choices); }},
      {"on_not_finite", "stop | skip | rerun",
       "where a loss is not finite: end the run, skip the step, or run it again to tell a fault of "
       "the machine",
       [](V v, Job& j) { j.on_not_finite = choice(v, not_finite_choices); },
       [](const Job& j) -> Json { return name_in(j.on_not_finite, not_finite_choices); }},
      {"timeout", "time with unit", "longest wait in a collective", read_timeout,
       [](const Job& j) -> Json { return exact_text(Duration::from_seconds(j.timeout_s)); }},
      {"deterministic", "true | false",
       "NCCL keeps to one algorithm and protocol (the others always do)",
       [](V v, Job& j) { j.deterministic = v.boolean(); },
       [](const Job& j) -> Json { return j.deterministic; }},
      {"output", "path", "run folder; absent: one is chosen under runs/",
       [](V v, Job& j) { j.output = path_of(v); },
       [](const Job& j) -> Json { return j.output.empty() ? Json() : Json(j.output.string()); },
       false, true},
  };
  return table;
}

struct SplitName {
  std::string_view group;  // empty at the top
  std::string_view key;
};

SplitName split(std::string_view name) {
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return {{}, name};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

/// The names that may stand in one object: of the file, or of one of its groups.
std::vector<std::string_view> names_in(std::string_view group) {
  std::vector<std::string_view> names;
  for (const Key& key : keys()) {
    const SplitName name = split(key.name);
    const bool inside = name.group == group;
    if (!inside && !group.empty()) continue;
    const std::string_view here = inside ? name.key : name.group;
    if (std::find(names.begin(), names.end(), here) == names.end()) names.push_back(here);
  }
  return names;
}

std::optional<JsonValue> object_of(const JsonValue& file, std::string_view group) {
  if (group.empty()) return file;
  if (!file.has(group)) return std::nullopt;
  return file.at(group);
}

void check_names(const JsonValue& file) {
  file.only_keys(names_in({}));
  for (const Key& key : keys()) {
    const std::string_view group = split(key.name).group;
    if (group.empty() || !file.has(group)) continue;
    file.at(group).only_keys(names_in(group));
  }
}

void read_key(const Key& key, const JsonValue& file, Job& job) {
  const SplitName name = split(key.name);
  const auto object = object_of(file, name.group);
  if (key.required) return key.read(file.at(name.key), job);
  const bool absent = !object || !object->has(name.key);
  if (absent) return;
  const JsonValue value = object->at(name.key);
  if (value.is_null() && key.null_is_absent) return;
  key.read(value, job);
}

void make_absolute(std::filesystem::path& path, const std::filesystem::path& folder) {
  if (path.empty()) return;
  path = (folder / path).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
}

/// Of a cluster, which may be a ready profile's name, too.
bool is_file(std::string_view cluster) {
  return cluster.ends_with(".json") || cluster.find('/') != std::string_view::npos;
}

/// Of an option in "pytorch"; PEFT's settings may stand there themselves.
bool is_file_of(std::string_view option, std::string_view value) {
  if (std::ranges::find(pytorch_files, option) == pytorch_files.end()) return false;
  if (option != "peft") return true;
  return !value.starts_with('{') && is_file(value);
}

void change_paths(Job& job, const auto& change) {
  change(job.model);
  change(job.output);
  for (auto& data : job.data) change(data);
  for (auto& [name, value] : job.pytorch) {
    if (!is_file_of(name, value)) continue;
    std::filesystem::path file = value;
    change(file);
    value = file.string();
  }
  if (!is_file(job.cluster)) return;
  std::filesystem::path cluster = job.cluster;
  change(cluster);
  job.cluster = cluster.string();
}

bool is_inside(const std::filesystem::path& path, const std::filesystem::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
}

void check_windows(const ProfileWindows& windows, std::string_view where) {
  if (windows.every == 0) return;
  if (windows.start == 0) {
    throw Error({.where = std::string(where),
                 .what = "every without start begins no window",
                 .way_out = "give start, the first step of the first window"});
  }
  if (windows.every < windows.steps) {
    throw Error({.where = std::string(where),
                 .what = fmt::format("every {} is less than the {} steps of a window",
                                     windows.every, windows.steps),
                 .way_out = "let windows begin further apart, or make them shorter"});
  }
}

/// Settings of the native runtime that PyTorch's would pass over.
void refuse_native_settings(const JsonValue& file, const Job& job) {
  if (is_native(job)) return;
  if (job.strategy.offload != Offload::none)
    throw file.at("offload").error(
        fmt::format("the runtime {} has settings of its own for it", name_of(job.strategy.runtime)),
        "set it in accelerate's or DeepSpeed's file");
  if (job.memory_budget.count > 0)
    throw file.at("memory_budget")
        .error("it chooses the native runtime's checkpointing", "write checkpointing");
}

void check_together(const JsonValue& file, const Job& job) {
  refuse_native_settings(file, job);
  const auto place = file.find("mesh") ? file.find("mesh") : file.find("strategy");
  // One rank may stand for "as many as mpirun starts".
  if (job.ranks > 1 && is_native(job))
    resolved(job.strategy, job.ranks, (place ? *place : file.at("ranks")).where());
  if (const auto profile = file.find("profile")) check_windows(job.profile, profile->where());
  const LearningRate& rate = job.learning_rate;
  if (rate.min > rate.peak)
    throw file.at("lr").error(fmt::format("min {} is above peak {}", rate.min, rate.peak));
  const std::int64_t total = rate.total > 0 ? rate.total : job.steps;
  if (rate.kind != LearningRate::Kind::constant && rate.total > 0 && rate.warmup > total)
    throw file.at("lr").error(fmt::format("warmup {} is longer than total {}", rate.warmup, total));
}

Job job_of(const JsonValue& file) {
  check_names(file);
  Job job;
  for (const Key& key : keys()) read_key(key, file, job);
  check_together(file, job);
  return job;
}

/// What the help prints for a default: as it would stand in the file.
std::string default_text(const Key& key) {
  return key.required ? "required" : key.write(Job{}).dump();
}

/// Of whole numbers from 1 on with colons between; none where it is something else.
std::vector<std::int64_t> numbers_of(std::string_view text) {
  std::vector<std::int64_t> numbers;
  for (std::string_view rest = text;; rest.remove_prefix(rest.find(':') + 1)) {
    const std::string_view part = rest.substr(0, rest.find(':'));
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    const bool is_number = error == std::errc() && end == part.data() + part.size();
    if (!is_number || number < 1 || number > most_steps) return {};
    numbers.push_back(number);
    if (part.size() == rest.size()) return numbers;
  }
}

}  // namespace

std::string_view name_of(CheckpointKind kind) {
  for (const auto& [candidate, name] : checkpoint_choices)
    if (candidate == kind) return name;
  return {};
}

CheckpointKind parse_checkpoint_kind(std::string_view text, std::string_view where) {
  for (const auto& [candidate, name] : checkpoint_choices)
    if (text == name) return candidate;
  throw Error({.where = std::string(where),
               .what = fmt::format("\"{}\" is none of sharded, full, local", text)});
}

ProfileWindows parse_profile_windows(std::string_view text, std::string_view where) {
  const std::vector<std::int64_t> numbers = numbers_of(text);
  const bool is_short = numbers.size() < 2 || numbers[1] <= most_profiled_steps;
  if (numbers.empty() || numbers.size() > 3 || !is_short) {
    throw Error({.where = std::string(where),
                 .what = fmt::format("expected START[:STEPS[:EVERY]], got \"{}\"", text),
                 .way_out = fmt::format("give numbers, as 100:5:1000, and at most {} steps",
                                        most_profiled_steps)});
  }
  ProfileWindows windows{.start = numbers[0]};
  if (numbers.size() > 1) windows.steps = static_cast<int>(numbers[1]);
  if (numbers.size() > 2) windows.every = numbers[2];
  check_windows(windows, where);
  return windows;
}

Job read_job_text(std::string_view text, const std::string& name) {
  return job_of(JsonValue::parse(text, name));
}

Job read_job(const std::filesystem::path& path) {
  Job job = job_of(JsonValue::read_file(path, DuplicateKeys::refuse, largest_job_bytes));
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  change_paths(job, [&](std::filesystem::path& one) { make_absolute(one, folder); });
  return job;
}

std::string to_json(const Job& given, const std::filesystem::path& folder) {
  Job job = given;
  const std::filesystem::path here = std::filesystem::current_path();
  const std::filesystem::path inside = (here / folder / ".").lexically_normal().parent_path();
  change_paths(job, [&](std::filesystem::path& path) {
    make_absolute(path, here);
    if (!folder.empty() && is_inside(path, inside)) path = path.lexically_relative(inside);
  });
  Json json = Json::object();
  for (const Key& key : keys()) {
    const SplitName name = split(key.name);
    Json& object = name.group.empty() ? json : json[std::string(name.group)];
    object[std::string(name.key)] = key.write(job);
  }
  constexpr int indent = 2;
  return json.dump(indent, ' ', true, Json::error_handler_t::replace) + "\n";
}

std::string job_help() {
  std::size_t name_width = 0, default_width = 0;
  for (const Key& key : keys()) {
    name_width = std::max(name_width, key.name.size());
    default_width = std::max(default_width, default_text(key).size());
  }
  std::string help =
      "A job is a JSON file. \"lr.peak\" is the key \"peak\" in the object \"lr\". Relative paths "
      "are relative "
      "to the file's folder.\n\n";
  for (const Key& key : keys())
    help += fmt::format("{:<{}}  {:<{}}  {} ({})\n", key.name, name_width, default_text(key),
                        default_width, key.meaning, key.type);
  return help;
}

}  // namespace shardscope
