// PyTorch's ModTracker: which modules of a model are running forward or backward.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/pytorch/engine/module.h"
#include "core/pytorch/engine/multi_grad_hook.h"

namespace shardscope::eager {

/// Source: torch 2.15, torch/distributed/_tools/mod_tracker.py. It must outlive the model's work.
class ModTracker {
 public:
  /// register_user_hooks: each is given the module's place, a number of this tracker; any may be
  /// empty.
  struct Hooks {
    std::function<void(std::size_t place)> before_forward, after_forward;
    std::function<void(std::size_t place)> before_backward, after_backward;
  };

  explicit ModTracker(Session& s) : s_(s) {}
  ModTracker(const ModTracker&) = delete;
  ModTracker& operator=(const ModTracker&) = delete;
  /// Python's garbage collector ends the circles of hooks and nodes; here the tracker does.
  ~ModTracker();

  /// `with tracker:` begins, for this model. Its class name is the first part of all names.
  void enter(Module& model, const std::string& class_name, Hooks hooks);

  /// is_bw: a backward runs.
  bool in_backward() const;
  /// That the module is one of `parents`.
  bool is_parent(std::size_t place) const { return entries_[place].is_parent; }
  std::size_t size() const { return entries_.size(); }
  Module& module(std::size_t place) const { return *entries_[place].module; }
  /// "GPT2LMHeadModel.transformer.h.0"
  const std::string& name(std::size_t place) const { return entries_[place].name; }
  std::size_t place_of(const Module& module) const;

 private:
  /// `running` counts forwards and backwards.
  struct Entry {
    Module* module = nullptr;
    std::string name;
    int running = 0;
    bool is_parent = false;
  };

  void add(Module& module, const std::string& name);
  void begin(std::size_t place);
  void end(std::size_t place);
  void before_forward(std::size_t place, const Arguments& arguments);
  void after_forward(std::size_t place, const Tensors& outputs);
  void before_backward(std::size_t place);
  void after_backward(std::size_t place);
  void enqueue_end_of_backward();

  Session& s_;
  Hooks hooks_;
  std::vector<Entry> entries_;
  std::vector<std::size_t> ends_with_backward_;
  std::vector<std::weak_ptr<SharedGradHooks>> grad_hooks_;
  bool has_callback_ = false;
};

}  // namespace shardscope::eager
