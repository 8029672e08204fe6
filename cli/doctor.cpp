// shardscope doctor: what is installed on this machine, which hardware profile it is like, and what
// is wrong with it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/machine_facts.h"
#include "cli/machine_findings.h"
#include "cli/output_options.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/base/version.h"

namespace shardscope {
namespace {

using Json = nlohmann::ordered_json;

struct DoctorOptions {
  std::optional<std::string> python;
  OutputOptions output;
};

/// What was asked and what follows from it.
struct Diagnosis {
  MachineFacts facts;
  std::optional<ProfileLikeness> profile;
  std::vector<MachineFinding> findings;
};

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

std::string gpus_text(const MachineFacts& facts, const Painter& painter) {
  if (facts.gpus.empty()) return "";
  Table table({{"GPU", Align::right},
               {"name"},
               {"memory", Align::right},
               {"in use", Align::right},
               {"power limit", Align::right}});
  for (const InstalledGpu& gpu : facts.gpus)
    table.row({fmt::format("{}", gpu.index), gpu.name, rounded_text(gpu.memory),
               rounded_text(gpu.used),
               gpu.power_limit_w ? fmt::format("{:.0f} W", *gpu.power_limit_w) : "-"});
  return table.text(painter) + "\n";
}

/// "NV18 (28 pairs)": each kind of link between GPUs once, in the order in which they are met.
std::string links_text(const LinkTable& links) {
  std::vector<std::pair<std::string, int>> kinds;
  const std::vector<std::size_t> gpus = links.gpus();
  for (std::size_t a = 0; a < gpus.size(); ++a) {
    for (std::size_t b = a + 1; b < gpus.size(); ++b) {
      const std::string& link = links.links[gpus[a]][gpus[b]];
      auto kind = std::find_if(kinds.begin(), kinds.end(),
                               [&](const auto& known) { return known.first == link; });
      if (kind == kinds.end()) kind = kinds.insert(kinds.end(), {link, 0});
      ++kind->second;
    }
  }
  std::vector<std::string> texts;
  for (const auto& [link, pairs] : kinds)
    texts.push_back(fmt::format("{} ({} pair{})", link, pairs, pairs == 1 ? "" : "s"));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string network_text(const std::vector<NetworkAdapter>& network) {
  std::vector<std::string> texts;
  for (const NetworkAdapter& adapter : network)
    texts.push_back(fmt::format("{} {} {:.0f} Gbit/s {}", adapter.name, adapter.layer,
                                adapter.rate_gbit_per_s, adapter.state));
  return texts.empty() ? "no RDMA adapter" : fmt::format("{}", fmt::join(texts, ", "));
}

std::string python_text(const PythonFacts& python) {
  return fmt::format(
      "{} {}: torch {} (CUDA {}, NCCL {}), transformers {}, accelerate {}, deepspeed {}",
      python.program, python.version, or_dash(python.torch), or_dash(python.torch_cuda),
      or_dash(python.nccl), or_dash(python.transformers), or_dash(python.accelerate),
      or_dash(python.deepspeed));
}

std::string profile_text(const ProfileLikeness& profile) {
  const std::string but =
      profile.differs.empty() ? "" : fmt::format(", but: {}", fmt::join(profile.differs, "; "));
  return fmt::format("most like --cluster {}{}", profile.profile, but);
}

Paint paint_of(Severity severity) {
  if (severity == Severity::error) return Paint::bad;
  return severity == Severity::warning ? Paint::warning : Paint::dim;
}

std::string text_of(const Diagnosis& diagnosis, const Painter& painter) {
  const MachineFacts& facts = diagnosis.facts;
  Table table({{"part"}, {"what"}});
  table.row({"shardscope", std::string(program_version())});
  table.row({"host", fmt::format("{}, {} threads, {} of memory, {} of it in /dev/shm", facts.cpu,
                                 facts.cores, rounded_text(facts.memory),
                                 rounded_text(facts.shared_memory))});
  if (!facts.gpus.empty())
    table.row({"driver", fmt::format("{}, runs CUDA {}", facts.gpus.front().driver,
                                     or_dash(facts.driver_cuda))});
  if (!facts.links.devices.empty()) table.row({"links of GPUs", links_text(facts.links)});
  table.row({"network", network_text(facts.network)});
  table.row(
      {"Python", facts.python ? python_text(*facts.python) : "not found, or it did not answer"});
  table.row({"calibrated",
             facts.calibrated_cpu.empty() && facts.calibrated_gpu.empty()
                 ? "no"
                 : facts.calibrated_gpu +
                       (facts.calibrated_gpu.empty() || facts.calibrated_cpu.empty() ? "" : ", ") +
                       facts.calibrated_cpu});
  std::string text = table.text(painter) + "\n" + gpus_text(facts, painter);
  if (diagnosis.profile) text += profile_text(*diagnosis.profile) + "\n\n";
  for (const MachineFinding& finding : diagnosis.findings)
    text += fmt::format("{}: {}\n    fix: {}\n",
                        painter(paint_of(finding.severity), name_of(finding.severity)),
                        finding.what, finding.fix);
  return text + (diagnosis.findings.empty() ? "nothing is wrong\n" : "");
}

Json number_or_null(std::optional<double> value) { return value ? Json(*value) : Json(nullptr); }

Json gpus_json(const std::vector<InstalledGpu>& gpus) {
  Json list = Json::array();
  for (const InstalledGpu& gpu : gpus)
    list.push_back({{"index", gpu.index},
                    {"name", gpu.name},
                    {"memory_bytes", gpu.memory.count},
                    {"used_bytes", gpu.used.count},
                    {"driver", gpu.driver},
                    {"compute_capability", gpu.compute_capability},
                    {"power_limit_w", number_or_null(gpu.power_limit_w)},
                    {"default_power_limit_w", number_or_null(gpu.default_power_limit_w)},
                    {"is_divided", gpu.is_divided}});
  return list;
}

Json network_json(const std::vector<NetworkAdapter>& network) {
  constexpr double bytes_of_gbit = 1e9 / 8;
  Json list = Json::array();
  for (const NetworkAdapter& adapter : network)
    list.push_back({{"name", adapter.name},
                    {"layer", adapter.layer},
                    {"state", adapter.state},
                    {"rate_bytes_per_s", adapter.rate_gbit_per_s * bytes_of_gbit}});
  return list;
}

Json python_json(const std::optional<PythonFacts>& python) {
  if (!python) return nullptr;
  return {{"program", python->program},
          {"version", python->version},
          {"torch", python->torch},
          {"torch_cuda", python->torch_cuda},
          {"nccl", python->nccl},
          {"torch_error", python->torch_error},
          {"sees_gpus", python->sees_gpus},
          {"gpus_seen", python->gpus_seen},
          {"architectures", python->architectures},
          {"transformers", python->transformers},
          {"accelerate", python->accelerate},
          {"deepspeed", python->deepspeed}};
}

std::string to_json(const Diagnosis& diagnosis) {
  const MachineFacts& facts = diagnosis.facts;
  Json findings = Json::array();
  for (const MachineFinding& finding : diagnosis.findings)
    findings.push_back({{"severity", name_of(finding.severity)},
                        {"message", finding.what},
                        {"mend", finding.fix}});
  Json profile = nullptr;
  if (diagnosis.profile)
    profile = {{"name", diagnosis.profile->profile}, {"differs", diagnosis.profile->differs}};
  const Json json{{"schema", "shardscope.doctor/1"},
                  {"version", program_version()},
                  {"host",
                   {{"cpu", facts.cpu},
                    {"threads", facts.cores},
                    {"memory_bytes", facts.memory.count},
                    {"shared_memory_bytes", facts.shared_memory.count},
                    {"locked_memory_limit_bytes",
                     facts.locked_limit ? Json(facts.locked_limit->count) : Json(nullptr)}}},
                  {"driver_cuda", facts.driver_cuda},
                  {"gpus", gpus_json(facts.gpus)},
                  {"links", {{"devices", facts.links.devices}, {"rows", facts.links.links}}},
                  {"network", network_json(facts.network)},
                  {"python", python_json(facts.python)},
                  {"calibrated", {{"cpu", facts.calibrated_cpu}, {"cuda", facts.calibrated_gpu}}},
                  {"profile", std::move(profile)},
                  {"findings", std::move(findings)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

ExitCode run_doctor(const DoctorOptions& options) {
  const std::string python = options.python.value_or("python3");
  options.output.note(
      fmt::format("asking nvidia-smi and {} (some seconds where torch is installed)", python));
  Diagnosis diagnosis{.facts = gather_machine_facts(python)};
  if (options.python && !diagnosis.facts.python)
    throw Error({.where = "--python",
                 .what = fmt::format("\"{}\" is not there, or does not answer as a Python", python),
                 .way_out = "give the program that trains, as in venv/bin/python"});
  diagnosis.profile = profile_like(diagnosis.facts);
  diagnosis.findings = machine_findings(diagnosis.facts);
  print(options.output.json ? to_json(diagnosis) : text_of(diagnosis, options.output.painter()));
  const bool has_error = std::any_of(
      diagnosis.findings.begin(), diagnosis.findings.end(),
      [](const MachineFinding& finding) { return finding.severity == Severity::error; });
  return has_error ? ExitCode::no : ExitCode::done;
}

}  // namespace

void declare_doctor(Command& command) {
  const auto options = std::make_shared<DoctorOptions>();
  command.heading("Whom to ask");
  command.option("--python", options->python,
                 {"PROGRAM", "the Python that trains (default: python3)"});
  declare_output_options(command, options->output);
  command.examples(
      {{"shardscope doctor",
        "what is installed, which --cluster it is like, what is wrong; exit 1 where something "
        "keeps torch "
        "from the GPUs"},
       {"shardscope doctor --python venv/bin/python", "of the packages of another Python"},
       {"shardscope doctor --json --quiet", "for scripts"}});
  command.action([options] { return run_doctor(*options); });
}

}  // namespace shardscope
