#include "cli/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <utility>

#include "cli/terminal.h"
#include "core/base/nearest_word.h"

namespace shardscope {
namespace {

Error unreadable(std::string_view name, std::string_view text, std::string_view expected) {
  return Error(
      {.where = std::string(name), .what = fmt::format("expected {}, got \"{}\"", expected, text)});
}

template <class Number>
Number parse_number(std::string_view name, const std::string& text, std::string_view expected) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw unreadable(name, text, expected);
  return value;
}

/// The options of a CLI11 app as they are typed.
std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

Error unexpected(const CLI::App& app, const std::string& argument) {
  const std::vector<std::string> names = option_names(app);
  const std::string_view typed = std::string_view(argument).substr(0, argument.find('='));
  const auto near = nearest_word(typed, {names.begin(), names.end()});
  if (!argument.starts_with("-"))
    return Error({.where = argument, .what = "one argument too many", .way_out = "see --help"});
  return Error({.where = argument,
                .what = "unknown option",
                .way_out = near ? fmt::format("did you mean {}?", *near) : "--help lists them"});
}

/// "--name=", after which CLI11 would take the next argument.
void refuse_empty_values(const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "--") return;
    if (!argument.starts_with("--") || argument.find('=') + 1 != argument.size()) continue;
    throw Error({.where = argument.substr(0, argument.size() - 1),
                 .what = "no value stands after =",
                 .way_out = "give one, or leave the option out"});
  }
}

bool asks_for_help(const std::vector<std::string>& arguments) {
  return !arguments.empty() && (arguments.front() == "--help" || arguments.front() == "-h");
}

/// CLI11's help without its double blank lines.
std::string help_of(const CLI::App& app) {
  std::string text = app.help();
  for (std::size_t at = 0; (at = text.find("\n\n\n", at)) != std::string::npos;) text.erase(at, 1);
  return text + "\n";
}

}  // namespace

struct Command::Impl {
  explicit Impl(std::string_view verb, std::string_view summary)
      : app(std::string(summary), "shardscope " + std::string(verb)) {}

  CLI::App app;
  std::string group = "Options";
  std::function<ExitCode()> action;
  std::vector<std::string>* passed_on = nullptr;
  std::vector<std::string>* command_line = nullptr;
  /// Options of which only one may be given. CLI11's own list of them stands in every line of
  /// --help.
  std::vector<std::pair<CLI::Option*, CLI::Option*>> apart;

  CLI::Option* add(std::string_view name, const std::function<void(const std::string&)>& store,
                   const OptionHelp& help) {
    auto* option = app.add_option_function<std::string>(std::string(name), store, help.text);
    return option->type_name(help.value)->group(group);
  }
};

Command::Command(std::string_view verb, std::string_view summary)
    : impl_(std::make_unique<Impl>(verb, summary)) {
  CLI::App& app = impl_->app;
  app.get_formatter()->column_width(36);
  app.set_help_flag();  // comes last, in `run`
  app.allow_extras();
}

Command::~Command() = default;

void Command::heading(std::string_view text) { impl_->group = text; }

void Command::option(std::string_view name, std::optional<std::string>& value,
                     const OptionHelp& help) {
  impl_->add(
      name, [&value](const std::string& text) { value = text; }, help);
}

void Command::optional_value(std::string_view name, std::optional<std::string>& value,
                             const OptionHelp& help) {
  impl_
      ->add(
          name, [&value](const std::string& text) { value = text; }, help)
      ->expected(0, 1);
}

void Command::option(std::string_view name, std::optional<std::int64_t>& value,
                     const OptionHelp& help) {
  const auto store = [&value, where = std::string(name)](const std::string& text) {
    value = parse_number<std::int64_t>(where, text, "an integer");
  };
  impl_->add(name, store, help);
}

void Command::option(std::string_view name, std::optional<double>& value, const OptionHelp& help) {
  const auto store = [&value, where = std::string(name)](const std::string& text) {
    value = parse_number<double>(where, text, "a number");
  };
  impl_->add(name, store, help);
}

void Command::options(std::string_view name, std::vector<std::string>& values,
                      const OptionHelp& help) {
  impl_->app.add_option(std::string(name), values, help.text)
      ->type_name(help.value)
      ->group(impl_->group);
}

void Command::flag(std::string_view name, bool& value, std::string_view text) {
  impl_->app.add_flag(std::string(name), value, std::string(text))->group(impl_->group);
}

void Command::positional(std::string_view name, std::optional<std::string>& value,
                         std::string_view text) {
  impl_->app
      .add_option_function<std::string>(
          std::string(name), [&value](const std::string& given) { value = given; },
          std::string(text))
      ->type_name("");
}

void Command::positionals(std::string_view name, std::vector<std::string>& values,
                          std::string_view text) {
  impl_->app.add_option(std::string(name), values, std::string(text))->type_name("");
}

void Command::pass_on(std::string_view name, std::vector<std::string>& values,
                      std::string_view text) {
  positionals(name, values, text);
  impl_->passed_on = &values;
}

void Command::command_line(std::vector<std::string>& words, std::string_view text) {
  CLI::App& app = impl_->app;
  app.description(fmt::format("{}\n\n{} [OPTIONS] -- COMMAND...\n    COMMAND: {}",
                              app.get_description(), app.get_name(), text));
  impl_->command_line = &words;
}

void Command::alone(std::string_view name, const std::vector<std::string>& with) {
  CLI::Option* const one = impl_->app.get_option(std::string(name));
  for (CLI::Option* other : impl_->app.get_options()) {
    const bool is_allowed = std::any_of(
        with.begin(), with.end(), [&](const std::string& word) { return other->check_name(word); });
    if (other != one && !is_allowed) impl_->apart.push_back({one, other});
  }
}

void Command::not_yet(std::string_view name, std::string_view what, std::string_view way_out) {
  elsewhere(name, std::string(what) + " at this commit", way_out);
}

void Command::elsewhere(std::string_view name, std::string_view what, std::string_view way_out) {
  const auto refuse = [parts = Error::Parts{.where = std::string(name),
                                            .what = std::string(what),
                                            .way_out = std::string(way_out)}](const std::string&) {
    throw Error(parts);
  };
  impl_->app.add_option_function<std::string>(std::string(name), refuse)->expected(0, 1)->group("");
}

void Command::fixed(std::string_view name, std::string_view only, const OptionHelp& help) {
  const auto check = [where = std::string(name),
                      known = std::string(only)](const std::string& text) {
    if (text == known) return;
    throw Error({.where = where,
                 .what = fmt::format("\"{}\" is not supported at this commit", text),
                 .way_out = fmt::format("{} is", known)});
  };
  impl_->add(name, check, help);
}

void Command::examples(const std::vector<std::pair<std::string, std::string>>& lines) {
  std::string text = "Examples:";
  for (const auto& [line, shows] : lines) text += fmt::format("\n  {}\n      {}", line, shows);
  impl_->app.footer(text);
}

void Command::action(std::function<ExitCode()> action) { impl_->action = std::move(action); }

ExitCode Command::run(const std::vector<std::string>& arguments) {
  CLI::App& app = impl_->app;
  app.set_help_flag("-h,--help", "prints this")->group("All verbs");
  if (impl_->passed_on && !asks_for_help(arguments)) {
    *impl_->passed_on = arguments;
    return impl_->action();
  }
  auto end = arguments.end();
  if (impl_->command_line && !asks_for_help(arguments)) {
    end = std::find(arguments.begin(), arguments.end(), "--");
    if (end == arguments.end() || end + 1 == arguments.end())
      throw Error(
          {.where = "--",
           .what = "no command was given",
           .way_out = "write it behind --, as in: " + app.get_name() + " -- python train.py"});
    impl_->command_line->assign(end + 1, arguments.end());
  }
  const std::vector<std::string> own(arguments.begin(), end);
  refuse_empty_values(own);
  try {
    app.parse(std::vector<std::string>(own.rbegin(), own.rend()));
  } catch (const CLI::CallForHelp&) {
    print(help_of(app));
    return ExitCode::done;
  } catch (const CLI::ParseError& error) {
    throw Error({.what = error.what(), .way_out = "see --help"});
  }
  if (const auto extra = app.remaining(); !extra.empty()) throw unexpected(app, extra.front());
  for (const auto& [one, other] : impl_->apart)
    if (one->count() > 0 && other->count() > 0)
      throw Error({.where = other->get_name(),
                   .what = "does not go with " + one->get_name(),
                   .way_out = "leave one of them out"});
  return impl_->action();
}

}  // namespace shardscope
