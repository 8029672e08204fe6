// check_recordings KIND FOLDER [--case GLOB] [--except FIELD,...] [--device NAME] [--json]
// Runs every case of a folder of recordings through the product's own code. Exit code 1 if any
// falls short.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/error.h"
#include "tests/recordings/ops_device.h"
#include "tests/recordings/recordings.h"

namespace shardscope::recordings {
namespace {

struct Request {
  std::string kind;
  std::filesystem::path folder;
  std::string pattern = "*";
  Options options;
  bool json = false;
};

struct Result {
  std::string name;
  Outcome outcome;
  bool passes() const { return outcome.difference.empty(); }
};

std::string usage() {
  std::string names;
  for (const Kind& kind : kinds()) names += (names.empty() ? "" : "|") + kind.name;
  return fmt::format(
      "usage: check_recordings {} FOLDER [--case GLOB] [--except FIELD,...] [--device "
      "cpu|cuda|emulated "
      "(of ops, training)] [--json]",
      names);
}

Error misuse(std::string what) {
  return Error({.where = {}, .what = std::move(what), .way_out = usage()});
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    parts.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

Request parse(const std::vector<std::string>& arguments) {
  Request request;
  std::vector<std::string> places;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const auto value = [&] {
      if (i + 1 == arguments.size()) throw misuse(argument + " needs a value");
      return arguments[++i];
    };
    if (argument == "--case")
      request.pattern = value();
    else if (argument == "--except")
      request.options.except = split(value());
    else if (argument == "--device")
      use_device(value());
    else if (argument == "--json")
      request.json = true;
    else if (argument.starts_with("--"))
      throw misuse("unknown option " + argument);
    else
      places.push_back(argument);
  }
  if (places.size() != 2) throw misuse("expected a kind and a folder");
  request.kind = places[0];
  request.folder = places[1];
  return request;
}

const Kind& kind_of(const std::string& name) {
  const auto found = std::find_if(kinds().begin(), kinds().end(),
                                  [&](const Kind& kind) { return kind.name == name; });
  if (found == kinds().end()) throw misuse(fmt::format("unknown kind \"{}\"", name));
  return *found;
}

/// A name that nothing is compared under leaves nothing out: said, as it may be a slip.
void note_unknown_fields(const Kind& kind, const Options& options) {
  for (const std::string& field : options.except)
    if (std::find(kind.fields.begin(), kind.fields.end(), field) == kind.fields.end())
      fmt::print(stderr, "--except: nothing of {} is compared under \"{}\"; known are {}\n",
                 kind.name, field, fmt::join(kind.fields, ", "));
}

Outcome outcome_of(const Kind& kind, const Request& request, const std::string& name) {
  try {
    return kind.check(request.folder, name, request.options);
  } catch (const std::exception& error) {
    return {.difference = error.what(), .worst_share = {}, .worst = {}};
  }
}

struct Report {
  std::vector<Result> results;
  std::size_t left_out = 0;  ///< cases that --case did not choose
  std::size_t exact() const {
    return static_cast<std::size_t>(std::count_if(
        results.begin(), results.end(), [](const Result& result) { return result.passes(); }));
  }
  const Result* worst() const {
    const Result* worst = nullptr;
    for (const Result& result : results)
      if (result.outcome.worst_share &&
          (!worst || *result.outcome.worst_share > *worst->outcome.worst_share))
        worst = &result;
    return worst;
  }
};

Report run(const Kind& kind, const Request& request) {
  Report report;
  for (const std::string& name : kind.cases(request.folder)) {
    if (!matches(request.pattern, name)) {
      ++report.left_out;
      continue;
    }
    report.results.push_back({name, outcome_of(kind, request, name)});
    if (!request.json && !report.results.back().passes())
      fmt::print("{}: {}\n", name, report.results.back().outcome.difference);
    std::fflush(stdout);
  }
  if (report.results.empty())
    throw misuse(
        fmt::format("no case of {} matches \"{}\"", request.folder.string(), request.pattern));
  return report;
}

std::string worst_text(const Result& result) {
  const std::string amount = fmt::format("{:.3g} of what is allowed", *result.outcome.worst_share);
  return result.outcome.worst.empty() ? amount
                                      : fmt::format("{} ({})", result.outcome.worst, amount);
}

void print_text(const Report& report, const Request& request) {
  if (report.left_out > 0)
    fmt::print("left out by --case {}: {} cases\n", request.pattern, report.left_out);
  if (!request.options.except.empty())
    fmt::print("left out by --except: {}\n", fmt::join(request.options.except, ", "));
  fmt::print("{} of {} exact\n", report.exact(), report.results.size());
  if (const Result* worst = report.worst())
    fmt::print("worst {} at {}\n", worst_text(*worst), worst->name);
}

void print_json(const Report& report, const Request& request) {
  nlohmann::ordered_json cases = nlohmann::ordered_json::array();
  for (const Result& result : report.results) {
    nlohmann::ordered_json row{{"name", result.name}, {"exact", result.passes()}};
    if (!result.passes()) row["difference"] = result.outcome.difference;
    if (result.outcome.worst_share) row["worst_share"] = *result.outcome.worst_share;
    if (!result.outcome.worst.empty()) row["worst"] = result.outcome.worst;
    cases.push_back(std::move(row));
  }
  nlohmann::ordered_json root{{"schema", "shardscope.check_recordings/1"},
                              {"kind", request.kind},
                              {"exact", report.exact()},
                              {"cases_total", report.results.size()},
                              {"left_out_by_case", report.left_out},
                              {"left_out_by_except", request.options.except},
                              {"cases", std::move(cases)}};
  if (const Result* worst = report.worst())
    root["worst"] = {{"name", worst->name}, {"text", worst_text(*worst)}};
  using Handler = nlohmann::ordered_json::error_handler_t;
  fmt::print("{}\n", root.dump(1, ' ', true, Handler::replace));
}

struct EndOfDevice {
  ~EndOfDevice() { end_device(); }
};

ExitCode check(const std::vector<std::string>& arguments) {
  const EndOfDevice end_of_device;
  const Request request = parse(arguments);
  const Kind& kind = kind_of(request.kind);
  note_unknown_fields(kind, request.options);
  const Report report = run(kind, request);
  request.json ? print_json(report, request) : print_text(report, request);
  return report.exact() == report.results.size() ? ExitCode::done : ExitCode::no;
}

}  // namespace
}  // namespace shardscope::recordings

int main(int count, char** values) {
  using shardscope::ExitCode;
  try {
    return static_cast<int>(shardscope::recordings::check({values + 1, values + count}));
  } catch (const shardscope::Error& error) {
    fmt::print(stderr, "check_recordings: {}\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "check_recordings: {}\n", error.what());
    return static_cast<int>(ExitCode::outside);
  }
}
