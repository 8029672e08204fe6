// shardscope data: text to tokens.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "backend/data/encode.h"
#include "cli/output_options.h"
#include "cli/output_path.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/base/error.h"
#include "core/base/grouped.h"

namespace shardscope {
namespace {

struct DataOptions {
  std::vector<std::string> arguments;  ///< "encode", then the text
  std::optional<std::string> file, format;
  OutputOptions output;
};

TokenFormat parse_format(const std::string& text) {
  if (text == "uint16") return TokenFormat::uint16;
  if (text == "llm_c") return TokenFormat::llm_c;
  throw Error({.where = "--format", .what = fmt::format("\"{}\" is none of uint16, llm_c", text)});
}

EncodeRequest request_of(const DataOptions& options) {
  const std::vector<std::string>& arguments = options.arguments;
  if (arguments.empty() || arguments.front() != "encode") {
    throw Error({.where = arguments.empty() ? "" : arguments.front(),
                 .what = "data can only encode",
                 .way_out = "say `shardscope data encode TEXT... -o FILE`"});
  }
  if (arguments.size() < 2)
    throw Error({.where = "TEXT", .what = "no text was given", .way_out = "give files or folders"});
  if (!options.file)
    throw Error(
        {.where = "-o", .what = "no output file was given", .way_out = "give -o tokens.bin"});
  return {.text = {arguments.begin() + 1, arguments.end()},
          .output = *options.file,
          .format = parse_format(options.format.value_or("uint16"))};
}

ExitCode run_data(const DataOptions& options) {
  const EncodeRequest request = request_of(options);
  refuse_over_input(request.output, request.text, "-o");
  const EncodeResult result = encode(request);
  for (const std::string& note : result.notes) options.output.note(note);
  if (options.output.json) {
    const nlohmann::ordered_json json{{"schema", "shardscope.data/1"},
                                      {"file", request.output.string()},
                                      {"format", options.format.value_or("uint16")},
                                      {"tokens", result.tokens},
                                      {"skipped", result.notes}};
    print(json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  } else {
    print(fmt::format("{}: {} tokens\n", request.output.string(), grouped(result.tokens)));
  }
  return ExitCode::done;
}

}  // namespace

void declare_data(Command& command) {
  const auto options = std::make_shared<DataOptions>();
  command.positionals("encode TEXT", options->arguments, "encode, then text files and folders");
  command.heading("What is written");
  command.option("-o", options->file, {"FILE", "the token file"});
  command.option("--format", options->format,
                 {"uint16|llm_c", "default: uint16, nanoGPT's format; llm_c: llm.c's .bin"});
  declare_output_options(command, options->output);
  command.examples({{"shardscope data encode /usr/share/common-licenses -o licences.bin",
                     "writes every byte of the files as a token, for the key `data` of a job"},
                    {"shardscope data encode a.txt b.txt -o tokens.bin --format llm_c",
                     "the same with llm.c's header"}});
  command.action([options] { return run_data(*options); });
}

}  // namespace shardscope
