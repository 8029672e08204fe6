// shardscope checkpoint: lists, verifies and rewrites what runs have saved.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "backend/base/core_binding.h"
#include "backend/checkpoint/checkpoint_folder.h"
#include "backend/checkpoint/checkpoint_reader.h"
#include "backend/checkpoint/foreign_reader.h"
#include "backend/checkpoint/rewrite.h"
#include "backend/checkpoint/torch_export.h"
#include "backend/train/stop_request.h"
#include "cli/output_options.h"
#include "cli/output_path.h"
#include "cli/progress_line.h"
#include "cli/summary_text.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/base/error.h"
#include "core/format/is_there.h"
#include "core/model/huggingface.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view schema = "shardscope.checkpoint/1";
constexpr std::int64_t most_ranks = 1 << 20;

struct CheckpointOptions {
  std::vector<std::string> arguments;  ///< what to do, then checkpoints
  std::optional<std::string> folder, to, model, under, groups;
  std::optional<std::int64_t> world, next_token;
  OutputOptions output;
};

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

constexpr const char* what_to_give =
    "give a run folder, or a checkpoint like RUN/checkpoints/step-00000050";

void require_folder(const fs::path& place) {
  std::error_code ignored;
  if (fs::is_directory(place, ignored)) return;
  throw Error({.where = place.string(),
               .what = is_there(place) ? "is a file, and a checkpoint is a folder" : "is not there",
               .way_out = what_to_give});
}

/// The checkpoints that a path stands for: itself, or those of a run folder.
std::vector<fs::path> checkpoints_at(const fs::path& place) {
  if (is_there(place / checkpoint_index_name) || step_of_name(place.filename().string()))
    return {place};
  if (is_foreign_checkpoint(place)) return {place};
  require_folder(place);
  std::vector<fs::path> found;
  for (const fs::path& folder : {checkpoints_of(place), place})
    for (const NamedCheckpoint& one : named_checkpoints(folder)) found.push_back(one.folder);
  return found;
}

std::int64_t bytes_of(const CheckpointIndex& index) {
  std::int64_t bytes = 0;
  for (const StoredFile& file : index.files) bytes += file.bytes;
  return bytes;
}

bool is_foreign(const fs::path& folder) {
  return !is_there(folder / checkpoint_index_name) && is_foreign_checkpoint(folder);
}

/// Bytes of all files below a folder.
std::int64_t bytes_below(const fs::path& folder) {
  std::int64_t bytes = 0;
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(folder, ignored))
    if (entry.is_regular_file(ignored))
      bytes += static_cast<std::int64_t>(entry.file_size(ignored));
  return bytes;
}

/// A checkpoint as `list` shows it.
struct Listed {
  fs::path folder;
  std::optional<CheckpointIndex> index;  ///< none where it cannot be read, or is another library's
  std::optional<std::string> why_not_whole;
  std::optional<ForeignCheckpoint> foreign;
  std::int64_t foreign_step = 0;
};

Listed listed_foreign(const fs::path& folder) {
  try {
    Listed one{.folder = folder, .index = {}, .why_not_whole = {}, .foreign = open_foreign(folder)};
    one.foreign_step = step_of(*one.foreign);
    return one;
  } catch (const Error& error) {
    return {.folder = folder, .index = {}, .why_not_whole = error.what(), .foreign = {}};
  }
}

Listed listed(const fs::path& folder) {
  if (is_foreign(folder)) return listed_foreign(folder);
  Listed one{.folder = folder, .index = {}, .why_not_whole = why_not_whole(folder), .foreign = {}};
  try {
    one.index = read_checkpoint_index(folder);
  } catch (const Error&) {
    // why_not_whole says it.
  }
  return one;
}

Json json_of(const Listed& one) {
  Json json{{"folder", one.folder.string()}, {"whole", !one.why_not_whole}};
  json["fault"] = one.why_not_whole ? Json(*one.why_not_whole) : Json(nullptr);
  if (one.foreign)
    json.update({{"step", one.foreign_step},
                 {"kind", one.foreign->format},
                 {"world", one.foreign->world},
                 {"strategy", one.foreign->strategy},
                 {"tensors", one.foreign->tensors.size()},
                 {"size_bytes", bytes_below(one.folder)}});
  if (!one.index) return json;
  const auto& [kind, progress, layout, job, files] = *one.index;
  json.update({{"step", progress.step},
               {"kind", name_of(kind)},
               {"loss", number_or_null(progress.loss)},
               {"gradient_norm", number_or_null(progress.gradient_norm)},
               {"learning_rate", progress.learning_rate},
               {"next_token", progress.next_token},
               {"elapsed_s", progress.elapsed_s},
               {"world", layout.world},
               {"strategy", layout.strategy},
               {"mesh", layout.mesh},
               {"wrap", layout.wrap},
               {"precision", layout.precision},
               {"files", files.size()},
               {"size_bytes", bytes_of(*one.index)}});
  return json;
}

ExitCode list(const CheckpointOptions& options, const std::vector<fs::path>& places) {
  Json all = Json::array();
  Table table({{"step", Align::right},
               {"kind"},
               {"loss", Align::right},
               {"size", Align::right},
               {"ranks", Align::right},
               {"strategy"},
               {"precision"},
               {"state"}});
  for (const fs::path& place : places)
    for (const fs::path& folder : checkpoints_at(place)) {
      const Listed one = listed(folder);
      all.push_back(json_of(one));
      const std::string state = one.why_not_whole.value_or("whole");
      if (one.foreign) {
        table.row({std::to_string(one.foreign_step), one.foreign->format, "",
                   rounded_text(Bytes{bytes_below(folder)}), std::to_string(one.foreign->world),
                   one.foreign->strategy, "", state});
        continue;
      }
      if (!one.index) {
        table.row({folder.filename().string(), "", "", "", "", "", "", {state, Paint::warning}});
        continue;
      }
      const TrainingProgress& progress = one.index->progress;
      const CheckpointLayout& layout = one.index->layout;
      table.row({std::to_string(progress.step),
                 std::string(name_of(one.index->kind)),
                 fmt::format("{:.4f}", progress.loss),
                 rounded_text(Bytes{bytes_of(*one.index)}),
                 std::to_string(layout.world),
                 layout.strategy,
                 layout.precision,
                 {state, one.why_not_whole ? Paint::warning : Paint::plain}});
    }
  if (options.output.json)
    print(dump({{"schema", schema}, {"checkpoints", all}}));
  else if (all.empty())
    print("no checkpoints\n");
  else
    print(table.text(options.output.painter()));
  return ExitCode::done;
}

/// More do not make a disk faster.
int reading_threads() {
  constexpr int most = 8;
  return std::min(most, cores_at_start());
}

struct Verified {
  std::vector<std::string> faults;
  std::int64_t bytes = 0;
  double seconds = 0;
};

/// Reads every tensor, which compares the checksums of the archives. Each tensor that fails is a
/// fault.
void verify_foreign(const fs::path& folder, Verified& result) {
  const ForeignCheckpoint checkpoint = open_foreign(folder);
  constexpr std::int64_t at_once = std::int64_t{1} << 22;
  std::vector<float> values;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    const std::int64_t elements = elements_of(tensor.shape);
    try {
      for (std::int64_t done = 0; done < elements; done += at_once) {
        values.resize(static_cast<std::size_t>(std::min(at_once, elements - done)));
        tensor.read(done, values);
      }
    } catch (const Error& error) {
      result.faults.push_back(fmt::format("{}: {}", name, error.parts().what));
    }
  }
  result.bytes = bytes_below(folder);
}

Verified verified(const fs::path& folder) {
  const auto begin = std::chrono::steady_clock::now();
  Verified result;
  try {
    if (is_foreign(folder)) {
      verify_foreign(folder, result);
    } else {
      CheckpointReader reader(folder);
      result.faults = reader.verify(reading_threads());
      result.bytes = reader.bytes_read();
    }
  } catch (const Error& error) {
    result.faults.emplace_back(error.what());
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

ExitCode verify(const CheckpointOptions& options, const std::vector<fs::path>& places) {
  Json all = Json::array();
  bool whole = true;
  ProgressLine line(options.output);
  for (const fs::path& place : places)
    for (const fs::path& folder : checkpoints_at(place)) {
      line.update("reads " + folder.string());
      const Verified result = verified(folder);
      whole = whole && result.faults.empty();
      all.push_back({{"folder", folder.string()},
                     {"whole", result.faults.empty()},
                     {"faults", result.faults},
                     {"read_bytes", result.bytes},
                     {"elapsed_s", result.seconds}});
      if (options.output.json) continue;
      if (result.faults.empty())
        print(fmt::format("{}: whole, {} read in {:.1f} s\n", folder.string(),
                          rounded_text(Bytes{result.bytes}), result.seconds));
      for (const std::string& fault : result.faults)
        print(fmt::format("{}: {}\n", folder.string(), fault));
    }
  if (all.empty()) {
    throw Error({.where = places.front().string(),
                 .what = "has no checkpoints",
                 .way_out = "give a run folder, or a checkpoint"});
  }
  if (options.output.json) print(dump({{"schema", schema}, {"checkpoints", all}}));
  return whole ? ExitCode::done : ExitCode::no;
}

/// One checkpoint: of a run folder the newest whole one.
fs::path one_checkpoint(const std::vector<fs::path>& places) {
  if (places.size() != 1) {
    throw Error({.where = "CHECKPOINT",
                 .what = fmt::format("expected one, got {}", places.size()),
                 .way_out = "give one checkpoint, or a run folder for its newest"});
  }
  if (is_there(places.front() / checkpoint_index_name)) return places.front();
  if (is_foreign_checkpoint(places.front())) return places.front();
  require_folder(places.front());
  std::vector<std::string> passed_over;
  for (const fs::path& folder : {checkpoints_of(places.front()), places.front()})
    if (const auto newest = newest_whole(folder, passed_over)) return newest->folder;
  throw Error({.where = places.front().string(),
               .what = passed_over.empty() ? "has no checkpoints" : passed_over.front(),
               .way_out = what_to_give});
}

int world_of(const CheckpointOptions& options, std::int64_t unless_given) {
  const std::int64_t world = options.world.value_or(unless_given);
  if (world >= 1 && world <= most_ranks) return static_cast<int>(world);
  throw Error(
      {.where = "--world", .what = fmt::format("expected 1 to {}, got {}", most_ranks, world)});
}

/// A checkpoint that is written again: Ctrl-C ends it at the next read, and what was begun is
/// removed.
class InterruptibleCheckpoint final : public Checkpoint {
 public:
  explicit InterruptibleCheckpoint(std::unique_ptr<Checkpoint> checkpoint)
      : checkpoint_(std::move(checkpoint)) {}

  const fs::path& folder() const override { return checkpoint_->folder(); }
  fs::path config() const override { return checkpoint_->config(); }
  const CheckpointIndex& index() const override { return checkpoint_->index(); }
  std::vector<Tensor> tensors() const override { return checkpoint_->tensors(); }
  std::optional<Tensor> find(const std::string& name) const override {
    return checkpoint_->find(name);
  }
  void read(const std::string& tensor, std::int64_t first, std::span<float> out) override {
    if (stop_.asked())
      throw Error(
          {.where = {}, .what = "interrupted; nothing was left", .code = ExitCode::interrupted});
    checkpoint_->read(tensor, first, out);
  }

 private:
  StopRequest stop_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

enum class Layout { sharded, full, dcp, accelerate, trainer };

ExitCode tell_written(const CheckpointOptions& options, const fs::path& place,
                      const fs::path& from) {
  const CheckpointIndex index = read_checkpoint_index(place);
  if (options.output.json)
    print(dump({{"schema", schema},
                {"folder", place.string()},
                {"from", from.string()},
                {"step", index.progress.step},
                {"kind", name_of(index.kind)},
                {"files", index.files.size()},
                {"size_bytes", bytes_of(index)}}));
  else
    print(fmt::format("{}: step {}, {}, {} in {} files\n", place.string(), index.progress.step,
                      name_of(index.kind), rounded_text(Bytes{bytes_of(index)}),
                      index.files.size()));
  return ExitCode::done;
}

/// The config.json of another library's checkpoint: --model, or the one in its folder.
fs::path model_of(const CheckpointOptions& options, const fs::path& from) {
  if (options.model) return config_path(*options.model);
  if (is_there(from / "config.json")) return from / "config.json";
  throw Error({.where = "--model",
               .what = fmt::format("{} does not say which model it holds", from.string()),
               .way_out = "give the model's folder or config.json"});
}

std::unique_ptr<Checkpoint> open_any(const CheckpointOptions& options, const fs::path& from) {
  if (!is_foreign(from)) return std::make_unique<CheckpointReader>(from);
  const fs::path config = model_of(options, from);
  return std::make_unique<ForeignReader>(
      open_foreign(from),
      ForeignModel{.config = config, .next_token = options.next_token.value_or(0)});
}

TorchParallel parallel_of(const CheckpointOptions& options) {
  if (!options.under || options.under == "fsdp") return TorchParallel::fsdp;
  if (options.under == "fsdp_full") return TorchParallel::fsdp_full;
  if (options.under == "ddp") return TorchParallel::ddp;
  throw Error({.where = "--under",
               .what = fmt::format("\"{}\" is none of fsdp, fsdp_full, ddp", *options.under),
               .way_out = "give fsdp for SHARDED_STATE_DICT, fsdp_full for FULL_STATE_DICT, ddp "
                          "also for one process"});
}

TorchGrouping grouping_of(const CheckpointOptions& options) {
  if (!options.groups || options.groups == "by_decay") return TorchGrouping::by_decay;
  if (options.groups == "one") return TorchGrouping::one;
  throw Error({.where = "--groups",
               .what = fmt::format("\"{}\" is none of by_decay, one", *options.groups),
               .way_out = "give one for an optimizer of model.parameters()"});
}

ExitCode tell_exported(const CheckpointOptions& options, const Checkpoint& from,
                       const fs::path& place, std::string_view kind, const std::string& meant_for) {
  const std::int64_t step = from.index().progress.step;
  if (options.output.json)
    print(dump({{"schema", schema},
                {"folder", place.string()},
                {"from", from.folder().string()},
                {"step", step},
                {"kind", kind}}));
  else
    print(fmt::format("{}: step {}, for {}\n", place.string(), step, meant_for));
  return ExitCode::done;
}

/// As another library writes it.
ExitCode export_folder(const CheckpointOptions& options, Checkpoint& from, const fs::path& place,
                       Layout to) {
  if (to == Layout::dcp) {
    export_dcp(from, place);
    return tell_exported(options, from, place, "dcp", "torch.distributed.checkpoint.load");
  }
  const TorchLibrary library =
      to == Layout::accelerate ? TorchLibrary::accelerate : TorchLibrary::trainer;
  const int world = world_of(options, from.index().layout.world);
  export_for_library(from,
                     {.library = library,
                      .parallel = parallel_of(options),
                      .grouping = grouping_of(options),
                      .world = world},
                     place);
  if (library == TorchLibrary::trainer)
    return tell_exported(options, from, place, "trainer",
                         "Trainer.train(resume_from_checkpoint=...)");
  return tell_exported(options, from, place, "accelerate",
                       fmt::format("Accelerator.load_state on {} ranks", world));
}

/// What the written layout has no use for.
void refuse_useless_options(const CheckpointOptions& options, Layout to) {
  const auto refuse = [](bool given, std::string_view name, std::string_view layouts) {
    if (given)
      throw Error({.where = std::string(name),
                   .what = fmt::format("is only for {}", layouts),
                   .way_out = "leave it out"});
  };
  const bool for_library = to == Layout::accelerate || to == Layout::trainer;
  constexpr std::string_view libraries = "--to accelerate and --to trainer";
  refuse(!for_library && options.under.has_value(), "--under", libraries);
  refuse(!for_library && options.groups.has_value(), "--groups", libraries);
  refuse(!for_library && to != Layout::sharded && options.world.has_value(), "--world",
         "reshard, --to sharded, --to accelerate and --to trainer");
}

ExitCode rewrite(const CheckpointOptions& options, const std::vector<fs::path>& places, Layout to) {
  if (!options.folder)
    throw Error({.where = "-o", .what = "no folder was given", .way_out = "give -o FOLDER"});
  refuse_useless_options(options, to);
  const fs::path place = *options.folder;
  ProgressLine line(options.output);
  const fs::path from = one_checkpoint(places);
  refuse_over_input(place, from, "-o");
  line.update(fmt::format("reads {}", from.string()));
  InterruptibleCheckpoint checkpoint(open_any(options, from));
  if (to != Layout::full && to != Layout::sharded)
    return export_folder(options, checkpoint, place, to);
  // Another library's checkpoint becomes one file, unless --world says otherwise.
  const int saved_by = is_foreign(from) ? 1 : checkpoint.index().layout.world;
  if (to == Layout::full)
    merge(checkpoint, place);
  else
    reshard(checkpoint, world_of(options, saved_by), place);
  return tell_written(options, place, from);
}

Layout layout_of(const CheckpointOptions& options) {
  if (options.to == "sharded") return Layout::sharded;
  if (options.to == "full") return Layout::full;
  if (options.to == "dcp") return Layout::dcp;
  if (options.to == "accelerate") return Layout::accelerate;
  if (options.to == "trainer") return Layout::trainer;
  throw Error(
      {.where = "--to",
       .what = options.to ? fmt::format("\"{}\" is none of sharded, full, dcp, accelerate, trainer",
                                        *options.to)
                          : "no format was given",
       .way_out = "give --to sharded, full, dcp, accelerate or trainer"});
}

/// `list` and `verify` only read.
void refuse_what_writes(const CheckpointOptions& options, const std::string& action) {
  const std::pair<bool, std::string_view> given[] = {
      {options.folder.has_value(), "-o"},
      {options.to.has_value(), "--to"},
      {options.world.has_value(), "--world"},
      {options.under.has_value(), "--under"},
      {options.groups.has_value(), "--groups"},
      {options.model.has_value(), "--model"},
      {options.next_token.has_value(), "--next-token"}};
  for (const auto& [is_given, name] : given)
    if (is_given)
      throw Error({.where = std::string(name),
                   .what = fmt::format("{} only reads checkpoints, and has no such option", action),
                   .way_out = "leave it out; merge, reshard and convert write"});
}

ExitCode run_checkpoint(const CheckpointOptions& options) {
  const std::string action = options.arguments.empty() ? "" : options.arguments.front();
  if (options.arguments.size() == 1) {
    throw Error({.where = action, .what = "no checkpoint was given", .way_out = what_to_give});
  }
  if (action.empty())
    throw Error({.where = {},
                 .what = "nothing was asked for",
                 .way_out = "say list, verify, convert, merge or reshard"});
  const std::vector<fs::path> places(options.arguments.begin() + 1, options.arguments.end());
  if (action == "list" || action == "verify") refuse_what_writes(options, action);
  if (action == "list") return list(options, places);
  if (action == "verify") return verify(options, places);
  if (action == "merge") return rewrite(options, places, Layout::full);
  if (action == "reshard") return rewrite(options, places, Layout::sharded);
  if (action == "convert") return rewrite(options, places, layout_of(options));
  throw Error({.where = action,
               .what = "is none of list, verify, convert, merge, reshard",
               .way_out = "`shardscope checkpoint --help` shows examples"});
}

}  // namespace

void declare_checkpoint(Command& command) {
  const auto options = std::make_shared<CheckpointOptions>();
  command.positionals(
      "list|verify|convert|merge|reshard CHECKPOINT", options->arguments,
      "what to do; then checkpoints, or run folders for theirs. list: what there "
      "is; verify: reads all and compares checksums; merge: whole tensors, a folder "
      "that transformers loads; reshard: equal parts for --world ranks; convert: "
      "either, by --to");
  command.heading("What is written");
  command.option("-o", options->folder, {"FOLDER", "the new checkpoint; must not be there yet"});
  command.option("--to", options->to,
                 {"sharded|full|dcp|accelerate|trainer",
                  "of convert; dcp: PyTorch's torch.distributed.checkpoint; accelerate: for "
                  "Accelerator.load_state; trainer: for transformers' Trainer"});
  command.option(
      "--world", options->world,
      {"N",
       "of reshard and --to sharded: files, one a rank; of --to accelerate and trainer: ranks "
       "that go on (default: as it was saved)"});
  command.option("--under", options->under,
                 {"fsdp|fsdp_full|ddp",
                  "of --to accelerate and trainer, how the job goes on: FSDP1 or FSDP2 with "
                  "SHARDED_STATE_DICT (default) or FULL_STATE_DICT; DDP or one process"});
  command.option("--groups", options->groups,
                 {"by_decay|one",
                  "of the same two, param_groups of the script's optimizer: by_decay has matrices "
                  "first, then what does not decay, like the Trainer (default); one has all "
                  "parameters in one group"});
  command.heading("For a checkpoint of PyTorch, accelerate or DeepSpeed");
  command.option(
      "--model", options->model,
      {"PATH", "the model's folder or config.json (default: config.json in the checkpoint)"});
  command.option("--next-token", options->next_token,
                 {"N", "global token offset at which the data goes on (default: 0)"});
  declare_output_options(command, options->output);
  command.examples(
      {{"shardscope checkpoint list runs/job", "steps, losses, sizes, and which are whole"},
       {"shardscope checkpoint verify runs/job/checkpoints/step-00000050",
        "exit code 1 where a byte is not as it was written"},
       {"shardscope checkpoint merge runs/job -o model",
        "the newest one as a folder for transformers' from_pretrained"},
       {"shardscope checkpoint reshard runs/job --world 8 -o resharded",
        "parts of equal size for 8 ranks; `train --resume` does not need that"},
       {"shardscope checkpoint convert runs/job --to dcp -o for_pytorch",
        "for torch.distributed.checkpoint.load, FSDP1 and FSDP2"},
       {"shardscope checkpoint convert runs/job --to accelerate --world 8 -o for_accelerate",
        "for accelerator.load_state(\"for_accelerate\") in a script on 8 ranks under FSDP"},
       {"shardscope checkpoint convert runs/job --to trainer --under ddp -o checkpoint-500",
        "for trainer.train(resume_from_checkpoint=\"checkpoint-500\")"},
       {"shardscope checkpoint convert from_pytorch --to sharded --model gpt2/ -o ours",
        "what torch.distributed.checkpoint, FSDP, accelerate or DeepSpeed saved, for "
        "`train --resume ours`"},
       {"shardscope checkpoint merge zero3 --model gpt2/ -o model",
        "DeepSpeed's ZeRO folder as a folder for from_pretrained, like zero_to_fp32.py"}});
  command.action([options] { return run_checkpoint(*options); });
}

}  // namespace shardscope
