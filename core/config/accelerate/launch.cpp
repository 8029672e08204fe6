#include "core/config/accelerate/launch.h"

#include <fmt/format.h>

#include <array>

#include "core/config/accelerate/launch_environment.h"
#include "core/config/accelerate/python_rules.h"

namespace shardscope::accelerate {
namespace {

class Launcher {
 public:
  Launcher(const LaunchRequest& request, Launch& out) : request_(request), out_(out) {}

  void run() {
    MergedArguments merged = merge_arguments(parse_launch(request_.words), request_.config,
                                             request_.shell, request_.machine);
    a_ = std::move(merged.arguments);
    out_.arguments = a_.values;
    out_.warnings = std::move(merged.warnings);
    choose(merged.precision_from_file);
  }

 private:
  bool on(std::string_view name) const { return a_[name].truthy(); }

  void choose(bool precision_from_file) {
    const bool cpu = on("cpu");
    if (on("use_deepspeed") && !cpu) return deepspeed(precision_from_file);
    if ((on("use_fsdp") || on("use_megatron_lm") || on("multi_gpu")) && !cpu) return multi_gpu();
    if (on("tpu") && !cpu) {
      out_.launcher = on("tpu_use_cluster") ? "tpu_pod_launcher" : "tpu_launcher";
      return;
    }
    simple();
  }

  /// Fields of the file's section: the plugin refuses some of them beside a DeepSpeed file.
  std::string fields_from_file(bool precision_from_file) const {
    std::string names;
    const auto add = [&](std::string_view name) {
      if (!names.empty()) names += ',';
      names += name;
    };
    if (request_.config)
      for (const ConfigValue::Entry& entry :
           request_.config->value->fields.at("deepspeed_config").entries())
        add(entry.key);
    if (precision_from_file) add("mixed_precision");
    return names;
  }

  void deepspeed(bool precision_from_file) {
    const std::string from_file = fields_from_file(precision_from_file);
    out_.launcher = "deepspeed_launcher";
    choose_port();
    if (a_["deepspeed_multinode_launcher"].is_null())
      a_.values.set("deepspeed_multinode_launcher", "pdsh");
    const bool standard = a_["deepspeed_multinode_launcher"].is("standard");
    const bool own_command = comparable(a_["num_machines"], "num_machines") > 1 && !standard;
    std::vector<std::string> command;
    if (own_command)
      command = deepspeed_command();
    else
      torchrun();
    refuse_module_without_python();
    Environment environment;
    set_deepspeed_environment(environment, a_, request_.machine, from_file);
    finish(std::move(environment));
    if (!own_command) return;
    out_.command = std::move(command);
    out_.torchrun.reset();
  }

  std::vector<std::string> deepspeed_command() const {
    std::vector<std::string> command{"deepspeed", "--hostfile", a_["deepspeed_hostfile"].str()};
    const auto add = [&](std::initializer_list<std::string> words) {
      command.insert(command.end(), words);
    };
    if (a_["deepspeed_multinode_launcher"].is("nossh"))
      add({"--node_rank", a_["machine_rank"].str(), "--no_ssh"});
    else
      add({"--no_local_rank", "--launcher", a_["deepspeed_multinode_launcher"].str()});
    if (!a_["deepspeed_exclusion_filter"].is_null())
      add({"--exclude", a_["deepspeed_exclusion_filter"].str()});
    else if (!a_["deepspeed_inclusion_filter"].is_null())
      add({"--include", a_["deepspeed_inclusion_filter"].str()});
    else
      add({"--num_gpus", floor_divided(a_["num_processes"], a_["num_machines"], "num_processes")});
    if (on("main_process_ip")) add({"--master_addr", a_["main_process_ip"].str()});
    add({"--master_port", a_["main_process_port"].str()});
    refuse_module_without_python();
    if (on("module")) add({"--module"});
    if (on("no_python") && !on("module")) add({"--no_python"});
    add_script(command);
    return command;
  }

  void add_script(std::vector<std::string>& command) const {
    command.push_back(a_["training_script"].str());
    const ConfigValue words = a_["training_script_args"];
    for (const ConfigValue& word : words.elements()) command.push_back(word.str());
  }

  void refuse_module_without_python() const {
    if (on("module") && on("no_python"))
      throw Refusal("ValueError", "--module and --no_python cannot be used together");
  }

  void choose_port() {
    const ConfigValue port = a_["main_process_port"];
    if (port == ConfigValue(0))
      a_.values.set("main_process_port", request_.machine.free_port);
    else if (port.is_null())
      a_.values.set("main_process_port", 29500);
  }

  void multi_gpu() {
    out_.launcher = "multi_gpu_launcher";
    choose_port();
    torchrun();
    refuse_module_without_python();
    Environment environment;
    set_multi_gpu_environment(environment, a_, request_.machine);
    finish(std::move(environment));
  }

  /// Source: utils/launch.py, prepare_multi_gpu_env; the rest are torch.distributed.run's defaults
  /// (torch 2.15), over which accelerate's arguments of the same name are copied.
  void torchrun() {
    ConfigValue args = ConfigValue::dict({{"nproc_per_node", a_["num_processes"].str()},
                                          {"nnodes", "1:1"},
                                          {"node_rank", 0},
                                          {"master_addr", "127.0.0.1"},
                                          {"master_port", ConfigValue()},
                                          {"rdzv_endpoint", ""},
                                          {"rdzv_backend", a_["rdzv_backend"]},
                                          {"standalone", false},
                                          {"max_restarts", a_["max_restarts"]}});
    const std::string ip = a_["main_process_ip"].str();
    const std::string port = a_["main_process_port"].str();
    if (comparable(a_["num_machines"], "num_machines") > 1) {
      args.set("nproc_per_node",
               floor_divided(a_["num_processes"], a_["num_machines"], "num_processes"));
      args.set("nnodes", a_["num_machines"].str());
      args.set("node_rank", integer_of(a_["machine_rank"], "machine_rank"));
      if (on("same_network")) {
        args.set("master_addr", ip);
        args.set("master_port", port);
      } else {
        args.set("rdzv_endpoint", fmt::format("{}:{}", ip, port));
      }
    } else {
      args.set("master_port", port);
    }
    torchrun_ = std::move(args);
  }

  void simple() {
    out_.launcher = "simple_launcher";
    refuse_module_without_python();
    std::vector<std::string> command = mpirun();
    if (!on("no_python")) {
      command.emplace_back("python");
      if (on("module")) command.emplace_back("-m");
    }
    add_script(command);
    Environment environment;
    set_simple_environment(environment, a_, request_.machine);
    out_.command = std::move(command);
    finish(std::move(environment));
  }

  /// As Open MPI takes it.
  std::vector<std::string> mpirun() const {
    if (a_["mpirun_hostfile"].is_null()) return {};
    const bool counts = on("num_processes") && on("num_machines");
    std::vector<std::string> command{
        "mpirun", "--hostfile", a_["mpirun_hostfile"].str(), "--npernode",
        counts ? floor_divided(a_["num_processes"], a_["num_machines"], "num_processes") : "1"};
    if (on("num_processes")) command.insert(command.end(), {"-n", a_["num_processes"].str()});
    const ConfigValue* bind_to = a_.values.find("bind-to");
    command.insert(command.end(), {"--bind-to", bind_to != nullptr ? bind_to->str() : "socket"});
    return command;
  }

  /// What the launcher sets beats the shell, the rest of the shell is handed on.
  void finish(Environment environment) {
    for (const auto& [name, value] : request_.shell)
      if (environment.emplace(name, value).second) out_.from_shell[name] = value;
    out_.environment = std::move(environment);
    out_.torchrun = std::move(torchrun_);
  }

  const LaunchRequest& request_;
  Launch& out_;
  LaunchArguments a_;
  std::optional<ConfigValue> torchrun_;
};

}  // namespace

Launch launch(const LaunchRequest& request) {
  Launch out;
  try {
    Launcher(request, out).run();
  } catch (const Refusal& refusal) {
    out.error = refusal;
  }
  return out;
}

}  // namespace shardscope::accelerate
