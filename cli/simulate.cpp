// shardscope simulate: time and memory of one strategy, predicted.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "backend/job/folder_lock.h"
#include "cli/allocator_option.h"
#include "cli/collectives_text.h"
#include "cli/figures.h"
#include "cli/hardware_choice.h"
#include "cli/job_settings.h"
#include "cli/lengths_option.h"
#include "cli/megatron_scenario.h"
#include "cli/native_scenario.h"
#include "cli/output_options.h"
#include "cli/output_path.h"
#include "cli/peak_explanation.h"
#include "cli/phases_text.h"
#include "cli/pipeline_notes.h"
#include "cli/prediction.h"
#include "cli/program_explanation.h"
#include "cli/pytorch_options.h"
#include "cli/pytorch_remedy.h"
#include "cli/pytorch_scenario.h"
#include "cli/recipe_option.h"
#include "cli/recorded_prediction.h"
#include "cli/refused_option.h"
#include "cli/sharding_options.h"
#include "cli/summary_text.h"
#include "cli/torchtitan_scenario.h"
#include "cli/verb.h"
#include "core/config/config_file.h"
#include "core/format/atomic_file.h"
#include "core/format/is_there.h"
#include "core/native/pipeline_stages.h"
#include "sim/megatron/prediction.h"
#include "sim/planner/choice_json.h"
#include "sim/planner/training_choice.h"
#include "sim/prediction/outside_memory.h"

namespace shardscope {
namespace {

struct SimulateOptions {
  JobOptions job;
  PlaceOptions place;
  OutputOptions output;
  ShardingOptions sharding;
  PytorchOptions pytorch;
  std::optional<std::string> cluster, device_memory, folder, margin, recording, lengths;
  std::optional<megatron::Arguments> megatron;  ///< of --config
  bool explain = false, phases = false;
};

std::string hardware_line(const HardwareChoice& hardware) {
  return fmt::format("\nhardware: {} ({})", hardware.profile.name, hardware.profile.source);
}

std::string headline(const NativeScenario& scenario, const HardwareChoice& hardware) {
  const Precision precision = scenario.strategy.precision;
  const std::string in =
      precision == Precision::fp32 ? std::string() : fmt::format(", {}", name_of(precision));
  const Mesh& mesh = scenario.strategy.mesh;
  const std::string rank = mesh.pipeline > 1
                               ? fmt::format(", rank {} (pipeline rank {})", scenario.rank,
                                             pipeline_rank(mesh, scenario.rank))
                               : std::string();
  return fmt::format("{} of {} on {} rank{} ({}), batch {} x {} tokens{}{}",
                     name_of(scenario.strategy.sharding), scenario.model.class_name, scenario.world,
                     scenario.world == 1 ? "" : "s", text_of(mesh), scenario.workload.batch,
                     scenario.workload.length, in, rank) +
         hardware_line(hardware);
}

std::string headline(const PytorchScenario& scenario, const HardwareChoice& hardware) {
  const planner::PytorchTraining& training = scenario.training;
  const eager::TrainingSettings& loop = training.setup.loop;
  const std::string micro_batches =
      loop.micro_batches > 1 ? fmt::format(" x {} micro-batches", loop.micro_batches) : "";
  const auto& tuning = training.setup.fine_tuning;
  return fmt::format("{} {} of {} on {} rank{}, batch {} x {} tokens{}, {}{}{}{}",
                     name_of(training.runtime), training.strategy, scenario.model.class_name,
                     training.setup.world, training.setup.world == 1 ? "" : "s", loop.batch,
                     loop.length, micro_batches, training.precision,
                     tuning ? fine_tuning_words(*tuning) : std::string(),
                     compiled_words(training.setup.compiled),
                     training.setup.model.liger.any() ? ", Liger's kernels" : "") +
         hardware_line(hardware);
}

/// The summary's JSON, with what --lengths says.
std::string summary_json(const Prediction& prediction,
                         const std::optional<LengthsReport>& lengths) {
  const std::string json = to_json(prediction.summary, "simulate");
  return lengths ? with_lengths(json, *lengths) : json;
}

/// What is read is not written over.
void check_folder(const SimulateOptions& options) {
  if (!options.folder) return;
  const RunFolder folder{*options.folder};
  if (options.job.job) refuse_over_input(folder.job(), *options.job.job, "-o");
  if (options.recording) refuse_over_input(folder.root, *options.recording, "-o");
}

/// The folder, which no other command writes into while this lives.
FolderLock locked(const RunFolder& folder) {
  create_folder(folder.root);
  return FolderLock(folder.root);
}

void leave_in(const RunFolder& folder, const Prediction& prediction,
              const HardwareProfile& profile) {
  write_atomically(folder.hardware(), to_json(profile));
  write_prediction(prediction, "simulate", folder);
  write_figures({&prediction.trace}, {nullptr}, figure_title(prediction.summary, "predicted"),
                folder);
}

/// Of a pipeline, the traces of the other stages and the picture of all.
void leave_stages(const RunFolder& folder, const std::vector<Prediction>& stages, std::size_t own) {
  write_stages(stages, own, folder);
  StageTraces traces;
  for (const Prediction& stage : stages) traces.predicted.push_back(&stage.trace);
  write_stages_figure(traces, figure_title(stages[own].summary, "predicted"), folder);
}

/// What failed and what lived then, and the nearest setting with which it would not.
std::string failure_text(const PytorchScenario& scenario, const Prediction& prediction,
                         const HardwareProfile& profile, const Painter& painter) {
  std::string text = out_of_memory_text(prediction.summary, painter);
  const auto remedy = find_remedy(scenario, profile);
  text += remedy ? fmt::format("it fits with {}: {} reserved\n", remedy->setting,
                               rounded_text(remedy->reserved))
                 : "No single change makes it fit. Combine several (checkpointing, a smaller "
                   "--batch, offload, a smaller --base-dtype or a quantised base), use more ranks, "
                   "or try `shardscope plan`.\n";
  return text;
}

std::string answer_text(const PytorchScenario& scenario, const Prediction& prediction,
                        const HardwareProfile& profile, bool explain, const Painter& painter) {
  std::string text;
  if (!prediction.summary.fits) text = failure_text(scenario, prediction, profile, painter) + "\n";
  if (prediction.out_of_memory_at) {
    const ProgramContents contents =
        contents_before(prediction.schedule, *prediction.out_of_memory_at);
    return text + "what lived then:\n\n" +
           explain_contents(prediction.schedule, contents, scenario.training.setup, painter);
  }
  if (prediction.summary.out_of_memory) return text;
  if (explain)
    return text + verdict_text(prediction.summary, painter) + "\n" +
           explain_program_peak(prediction.schedule, scenario.training.setup, painter) + "\n" +
           collectives_text(prediction.summary, painter);
  return text + summary_text(prediction.summary, painter);
}

JobSettings settings_of(SimulateOptions& options) {
  return {options.job, options.sharding, options.pytorch, options.cluster};
}

ExitCode run_pytorch(SimulateOptions& options) {
  const auto sequences = take_lengths(options.lengths, options.job);
  const HardwareChoice hardware = require_hardware(options.cluster, options.device_memory);
  const std::optional<Bytes> margin = margin_of(options.margin, hardware.profile.memory);
  PytorchScenario scenario = scenario_of_one_run({.job = options.job,
                                                  .sharding = options.sharding,
                                                  .pytorch = options.pytorch,
                                                  .place = options.place,
                                                  .gpu = gpu_of(hardware.profile)},
                                                 hardware.profile);
  planner::PytorchTraining& training = scenario.training;
  if (sequences) planner::check_prompt(training.setup, scenario.model, *sequences);
  Prediction prediction = predict(scenario, hardware.profile);
  prediction.summary.margin = margin;
  std::optional<LengthsReport> lengths;
  if (sequences)
    lengths = {*sequences, training.setup.loop.length, training.setup.loop.batch,
               prediction.summary.tokens_per_s, memory_or_note(options.output, [&] {
                 return planner::memory_of_lengths(
                     training, scenario.model, scenario.config,
                     {.memory = hardware.profile.memory,
                      .outside = outside_bytes(prediction.schedule, hardware.profile),
                      .margin = margin.value_or(Bytes{})},
                     *sequences);
               })};
  std::vector<planner::PhaseMemory> phases;
  if (options.phases)
    phases = planner::phases_of(
        training, scenario.model, scenario.config, hardware.profile,
        {.outside = outside_bytes(prediction.schedule, hardware.profile),
         .host_per_node = prediction.summary.host_memory_of_node.value_or(Bytes{})},
        scenario.eval_batch);
  if (options.folder) {
    const RunFolder folder{*options.folder};
    const int world = training.setup.world;
    const FolderLock lock = locked(folder);
    create_folder(folder.predicted_choice().parent_path());
    leave_job(folder, scenario.job, world, settings_of(options),
              planner::choice_of(training, scenario.model));
    leave_in(folder, prediction, hardware.profile);
  }
  if (options.output.json) {
    const std::string json = summary_json(prediction, lengths);
    print((options.phases ? with_phases(json, phases, prediction.summary) : json) + "\n");
  } else {
    const Painter painter = options.output.painter();
    note_assumptions(options.output, prediction.summary.assumed);
    print(painter(Paint::bold, headline(scenario, hardware)) + "\n\n");
    print(answer_text(scenario, prediction, hardware.profile, options.explain, painter));
    if (lengths) print("\n" + lengths_text(*lengths));
    if (options.phases) print("\n" + phases_text(phases, prediction.summary, painter));
  }
  if (options.folder) options.output.note(fmt::format("left in {}", *options.folder));
  const bool lengths_fit = !lengths || !lengths->memory || lengths->memory->fits;
  return prediction.summary.fits && all_fit(phases) && lengths_fit ? ExitCode::done : ExitCode::no;
}

/// Leaves every stage in the folder of --out, and prints the one of --rank.
template <typename Scenario>
ExitCode answer_stages(const SimulateOptions& options, const Scenario& scenario,
                       std::vector<Prediction>& stages, const HardwareChoice& hardware) {
  Prediction& prediction = stages[own_stage(scenario)];
  prediction.summary.margin = margin_of(options.margin, hardware.profile.memory);
  const Summary& summary = prediction.summary;
  if (options.folder) {
    const RunFolder folder{*options.folder};
    const FolderLock lock = locked(folder);
    leave_in(folder, prediction, hardware.profile);
    if (stages.size() > 1) leave_stages(folder, stages, own_stage(scenario));
  }
  if (options.output.json) {
    print(to_json(summary, "simulate") + "\n");
  } else {
    const Painter painter = options.output.painter();
    note_assumptions(options.output, summary.assumed);
    print(painter(Paint::bold, headline(scenario) + hardware_line(hardware)) + "\n\n");
    print(out_of_memory_text(summary, painter));
    if (!summary.out_of_memory) print(summary_text(summary, painter));
    if (options.explain) print("\n" + collectives_text(summary, painter));
  }
  if (options.folder) options.output.note(fmt::format("left in {}", *options.folder));
  return summary.fits ? ExitCode::done : ExitCode::no;
}

ExitCode run_torchtitan(const SimulateOptions& options) {
  refuse_if(options.lengths.has_value(), "--lengths",
            "lengths are not weighed under torchtitan, which packs its sequences");
  refuse_if(options.phases, "--phases",
            "phases beside training are not predicted under torchtitan yet");
  const HardwareChoice hardware = require_hardware(options.cluster, options.device_memory);
  TorchtitanScenario scenario = resolve_torchtitan_scenario({.job = options.job,
                                                             .sharding = options.sharding,
                                                             .pytorch = options.pytorch,
                                                             .place = options.place,
                                                             .gpu = gpu_of(hardware.profile)});
  scenario.allocator = allocator_settings(options.pytorch.allocator, scenario.assumed);
  std::vector<Prediction> stages = predict_stages(scenario, hardware.profile);
  note_few_micro_batches(setup_of(scenario), options.output);
  return answer_stages(options, scenario, stages, hardware);
}

/// A command line of Megatron-LM in --config.
void take_megatron_arguments(SimulateOptions& options) {
  if (!options.sharding.config) return;
  const ConfigFile file = read_config_file(*options.sharding.config);
  if (file.kind != ConfigKind::megatron) return;
  if (options.sharding.runtime && *options.sharding.runtime != megatron_runtime)
    throw Error({.where = "--config",
                 .what = fmt::format("{} is a command line of Megatron-LM, and --runtime says {}",
                                     file.name(), *options.sharding.runtime),
                 .way_out = "leave --runtime out"});
  options.megatron = megatron::read_arguments(file.text, file.name());
  options.sharding.runtime = megatron_runtime;
  const std::string unknown = unknown_flags(*options.megatron);
  if (!unknown.empty())
    options.output.note(fmt::format("{}: flags that are not known here: {}", file.name(), unknown));
}

ExitCode run_megatron(const SimulateOptions& options) {
  refuse_if(options.lengths.has_value(), "--lengths", "lengths are not weighed under Megatron-LM");
  refuse_if(options.phases, "--phases",
            "phases beside training are not predicted under Megatron-LM");
  refuse_if(options.explain, "--explain",
            "what lives at the peak is not listed by tensor under Megatron-LM");
  const HardwareChoice hardware = require_hardware(options.cluster, options.device_memory);
  const std::string file = options.megatron ? *options.sharding.config : "";
  const MegatronScenario scenario = resolve_megatron_scenario({.job = options.job,
                                                               .sharding = options.sharding,
                                                               .pytorch = options.pytorch,
                                                               .place = options.place,
                                                               .gpu = gpu_of(hardware.profile)},
                                                              options.megatron, file);
  std::vector<Prediction> stages =
      predict_megatron(scenario.settings, scenario.assumed, hardware.profile);
  return answer_stages(options, scenario, stages, hardware);
}

/// What `record` left, on its own cluster or another one.
ExitCode run_recording(const SimulateOptions& options) {
  require_recording(*options.recording);
  const HardwareChoice hardware =
      require_hardware(options.cluster.value_or(RunFolder{*options.recording}.hardware().string()),
                       options.device_memory);
  std::vector<RecordedRun> runs =
      predict_recordings(*options.recording, hardware.profile, options.output, options.place.rank);
  RecordedRun& run = runs.front();
  run.prediction.summary.margin = margin_of(options.margin, hardware.profile.memory);
  if (options.output.json) {
    print(recorded_json(runs, "simulate") + "\n");
  } else {
    note_assumptions(options.output, run.prediction.summary.assumed);
    print(recorded_text(runs, hardware.profile, options.output.painter()));
  }
  if (options.folder) {
    const RunFolder folder{*options.folder};
    const FolderLock lock = locked(folder);
    leave_in(folder, run.prediction, hardware.profile);
    options.output.note(fmt::format("left in {}", *options.folder));
  }
  return run.prediction.summary.fits ? ExitCode::done : ExitCode::no;
}

/// A run says what it was predicted for, where its job does not.
void take_hardware_of_run(SimulateOptions& options) {
  if (options.cluster || !options.job.job) return;
  const RunFolder folder{std::filesystem::path(*options.job.job).parent_path()};
  const bool is_run = is_there(folder.summary()) || is_there(folder.predicted_summary());
  if (is_run && is_there(folder.hardware())) options.cluster = folder.hardware().string();
}

/// A plan's place of torchtitan, which runs the pipelines of fsdp2, too.
void take_torchtitan_of_place(SimulateOptions& options) {
  if (!options.sharding.choice) return;
  const planner::Choice choice = planner::read_choice(*options.sharding.choice);
  if (!planner::is_pipelined(choice) && !choice.torchtitan) return;
  options.job = options_of_torchtitan(choice, std::move(options.job));
  options.sharding.runtime = torchtitan_runtime;
}

ExitCode run_simulate(SimulateOptions options) {
  check_folder(options);
  if (options.recording) return run_recording(options);
  take_settings_of_job(settings_of(options));
  take_hardware_of_run(options);
  take_megatron_arguments(options);
  if (options.sharding.runtime == megatron_runtime) return run_megatron(options);
  take_recipe(settings_of(options), options.place, options.output);
  take_torchtitan_of_place(options);
  if (options.sharding.runtime == torchtitan_runtime) return run_torchtitan(options);
  if (options.sharding.other_than_native()) return run_pytorch(options);
  options.pytorch.refuse_under_native();
  if (options.phases)
    throw Error({.where = "--phases",
                 .what = "the native runtime has one arena for all of its phases",
                 .way_out = "leave it out, or give --runtime, --accelerate or --deepspeed"});
  const HardwareChoice hardware = require_hardware(options.cluster, options.device_memory);
  const std::optional<Bytes> margin = margin_of(options.margin, hardware.profile.memory);
  const auto sequences = take_lengths(options.lengths, options.job);
  NativeScenario scenario = resolve_native_scenario(options.job, options.place);
  deal_out_layers(scenario, &hardware.profile);
  std::vector<Prediction> stages = predict_stages(scenario, hardware.profile);
  note_few_micro_batches(setup_of(scenario), options.output);
  Prediction& prediction = stages[own_stage(scenario)];
  prediction.summary.margin = margin;
  std::optional<LengthsReport> lengths;
  if (sequences)
    lengths = {*sequences, scenario.workload.length, scenario.workload.batch,
               prediction.summary.tokens_per_s};
  if (options.folder) {
    const RunFolder folder{*options.folder};
    const FolderLock lock = locked(folder);
    leave_job(folder, scenario.job, scenario.world, settings_of(options), std::nullopt);
    leave_in(folder, prediction, hardware.profile);
    leave_stages(folder, stages, own_stage(scenario));
  }
  if (options.output.json) {
    print(summary_json(prediction, lengths) + "\n");
  } else {
    const Painter painter = options.output.painter();
    note_assumptions(options.output, prediction.summary.assumed);
    print(painter(Paint::bold, headline(scenario, hardware)) + "\n\n");
    print(options.explain ? verdict_text(prediction.summary, painter) + "\n" +
                                explain_peak(prediction.schedule, painter) + "\n" +
                                collectives_text(prediction.summary, painter)
                          : summary_text(prediction.summary, painter));
    if (lengths) print("\n" + lengths_text(*lengths));
  }
  if (options.folder) options.output.note(fmt::format("left in {}", *options.folder));
  return prediction.summary.fits ? ExitCode::done : ExitCode::no;
}

}  // namespace

void declare_simulate(Command& command) {
  const auto options = std::make_shared<SimulateOptions>();
  declare_job_options(command, options->job);
  declare_sharding_options(command, options->sharding);
  declare_recipe_option(command, options->sharding);
  declare_pytorch_options(command, options->pytorch);
  declare_allocator_option(command, options->pytorch.allocator);
  declare_place_options(command, options->place);
  command.option(
      "--cluster", options->cluster,
      {"FILE|NAME", "hardware profile (default: the result of calibrate on this machine)"});
  command.option("--device-memory", options->device_memory,
                 {"BYTES", "memory of a device, \"40 GiB\" (default: the cluster's)"});
  command.option("--recording", options->recording,
                 {"FOLDER",
                  "predicts what `shardscope record` left, instead of a job; --cluster is "
                  "the recording's own unless given"});
  declare_lengths_option(command, options->lengths);
  declare_margin_option(command, options->margin);
  declare_output_options(command, options->output);
  command.flag("--explain", options->explain,
               "shows what is alive at the peak, until when, which setting frees it, and the cost "
               "of collectives");
  command.flag("--phases", options->phases,
               "shows loading, wrapping, evaluating and saving beside training; all must fit");
  command.option("-o", options->folder, {"PATH", "run folder for summary, trace and pictures"});
  command.alone("--recording", {"--cluster", "--rank", "--device-memory", "--margin", "--json",
                                "--quiet", "--color", "-o"});
  command.examples(
      {{"shardscope simulate --model examples/models/gpt2 --world 8 --batch 4 --seq "
        "1024 --cluster h100_sxm",
        "full_shard on one node of eight GPUs"},
       {"shardscope simulate --accelerate examples/configs/fsdp_v1.yaml --model "
        "examples/models/qwen2_5_0_5b --batch 4 --seq 2048 --cluster h100_sxm",
        "time and memory of that file's run, by PyTorch's own rules"},
       {"shardscope simulate --runtime fsdp2 --model examples/models/llama_3_8b "
        "--world 16 --seq 4096 --precision bf16_mixed --cluster h100_sxm --explain",
        "shows what is alive at the peak, its owner, and which setting frees it"},
       {"shardscope simulate --accelerate examples/configs/fsdp_v1.yaml --model "
        "examples/models/qwen2_5_0_5b --batch 4 --seq 2048 --cluster h100_sxm "
        "--allocator expandable_segments:True",
        "the same with other settings of the caching allocator"},
       {"shardscope simulate --model examples/models/llama_3_8b --mesh "
        "pipeline=4,shard=2 --accumulate 8 --seq 4096 --precision bf16_mixed --cluster "
        "h100_sxm",
        "four stages under 1F1B, each sharded over two ranks"},
       {"shardscope simulate --runtime fsdp2 --model examples/models/llama_3_8b --mesh "
        "tensor=4,shard=2 --precision bf16 --seq 4096 --cluster h100_sxm",
        "transformers' Trainer with DistributedConfig(tp_size=4, fsdp_size=2)"},
       {"shardscope simulate --runtime torchtitan --model examples/models/llama_3_8b "
        "--mesh shard=16,tensor=8 --seq 8192 --checkpointing full --cluster h100_sxm",
        "torchtitan's Llama, sharded over 16 groups of 8 tensor-parallel ranks"},
       {"shardscope simulate --runtime megatron --model examples/models/llama_3_8b --mesh "
        "tensor=4,pipeline=2,shard=8 --seq 8192 --tokens-per-batch 1048576 --cluster h100_sxm",
        "Megatron-LM: tensor and sequence parallelism, two stages, the distributed optimizer"},
       {"shardscope simulate --config examples/configs/megatron_llama3_8b.sh --world 64 --cluster "
        "h100_sxm",
        "the same from Megatron-LM's own command line"},
       {"shardscope simulate --runtime ddp --world 1 --model examples/models/llama_3_8b "
        "--quantization nf4,double --peft r=16,targets=all-linear --checkpointing full "
        "--optimizer paged_adamw_8bit --seq 2048 --cluster h100_sxm --phases",
        "QLoRA on one GPU, with every phase of the run"},
       {"shardscope simulate --job job.json --strategy zero1 --explain",
        "shows what is alive at the peak of a job under ZeRO-1"},
       {"shardscope simulate --job job.json -o runs/predicted --json",
        "the figures for scripts, the pictures in a folder"}});
  command.action([options] { return run_simulate(*options); });
}

}  // namespace shardscope
