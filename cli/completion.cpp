// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"
#include "commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kedge::cli {
namespace {

bool is_option(const Argument& argument) {
  return argument.name().starts_with('-');
}

/// "-o,--out" as "-o" and "--out".
std::vector<std::string> spellings(const Argument& argument) {
  std::vector<std::string> all;
  std::string_view rest = argument.name();
  for (std::size_t comma = 0; comma != std::string_view::npos;) {
    comma = rest.find(',');
    all.emplace_back(rest.substr(0, comma));
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  return all;
}

bool is_path(std::string_view type) {
  return type.ends_with("FILE") || type == "BUNDLE" || type == "FOLDER";
}

std::string names_of(const CommandLine& line) {
  std::vector<std::string_view> names;
  for (const Command& command : line.commands()) {
    if (!command.hidden()) names.push_back(command.name());
  }
  return fmt::format("{}", fmt::join(names, " "));
}

/// Bash completes file names by itself if this offers nothing, also behind the '=' of NAME=FILE.
void print_bash(const CommandLine& line) {
  std::string options, choices;
  std::vector<std::string> free;  // options whose value is up to the user
  for (const Command& command : line.commands()) {
    std::vector<std::string> all{"--config", "--help"};
    for (const Argument& argument : command.arguments()) {
      if (!is_option(argument)) continue;
      const std::vector<std::string> own = spellings(argument);
      all.insert(all.end(), own.begin(), own.end());
      if (argument.type().empty()) continue;
      for (const std::string& name : own) {
        const std::string place = fmt::format("{}:{}", command.name(), name);
        if (argument.choices().empty()) {
          free.push_back(place);
        } else {
          choices += fmt::format("    {}) words='{}' ;;\n", place, fmt::join(argument.choices(), " "));
        }
      }
    }
    if (!command.hidden()) options += fmt::format("    {}) words='{}' ;;\n", command.name(), fmt::join(all, " "));
  }
  fmt::print(R"(# Completes kedge in bash: source <(kedge completion bash)
_kedge() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} command=${{COMP_WORDS[1]}} words=
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W '{} --help --version' -- "$word")
    return
  fi
  case $command:$before in
{}    {}) return ;;
    *)
      [[ $word == -* ]] || return
      case $command in
{}      esac ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}}
complete -o default -F _kedge kedge
)",
             names_of(line), choices, fmt::join(free, "|"), options);
}

/// Text inside single quotes and square brackets of an _arguments specification.
std::string bracketed(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\'') {
      result += "'\\''";
    } else {
      if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
      result += c;
    }
  }
  return result;
}

std::string zsh_value(const Argument& argument) {
  const std::string& type = argument.type();
  if (!argument.choices().empty()) return fmt::format(":{}:({})", bracketed(type), fmt::join(argument.choices(), " "));
  if (type == "NAME=FILE") return ":NAME=FILE:_kedge_named_file";
  return fmt::format(":{}:{}", bracketed(type), is_path(type) ? "_files" : " ");
}

void print_zsh(const CommandLine& line) {
  std::string described, cases;
  for (const Command& command : line.commands()) {
    if (command.hidden()) continue;
    described += fmt::format("      '{}:{}'\n", command.name(), bracketed(command.help()));
    std::string specs = "        '--config[Read options from a TOML file]:FILE:_files' \\\n";
    for (const Argument& argument : command.arguments()) {
      if (!is_option(argument)) {
        specs += fmt::format("        ':{}:_files' \\\n", bracketed(argument.type()));
        continue;
      }
      for (const std::string& name : spellings(argument)) {
        specs += fmt::format("        '*{}[{}]{}' \\\n", name, bracketed(argument.text()),
                             argument.type().empty() ? "" : zsh_value(argument));
      }
    }
    cases += fmt::format("    {})\n      _arguments \\\n{}        '--help[Explain the command]' ;;\n", command.name(),
                         specs);
  }
  fmt::print(R"(#compdef kedge
# Completes kedge in zsh: save it as _kedge in a folder on $fpath, or source <(kedge completion zsh)
_kedge_named_file() {{
  if [[ $PREFIX == *=* ]]; then compset -P '*='; _files; else _message 'NAME=FILE'; fi
}}
_kedge() {{
  if ((CURRENT == 2)); then
    local -a commands=(
{}    )
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  ((CURRENT -= 1))
  case $command in
{}  esac
}}
if [[ $funcstack[1] == _kedge ]]; then _kedge "$@"; else compdef _kedge kedge; fi
)",
             described, cases);
}

}  // namespace

void add_completion(CommandLine& line) {
  const auto shell = std::make_shared<std::string>();
  Command& c = line.add("completion", "Print a shell script that completes kedge's commands and options");
  c.hide();
  c.add("shell", *shell, "Which shell the script is for").required().one_of({"bash", "zsh"}).takes("SHELL");
  c.runs([shell, &line] { *shell == "bash" ? print_bash(line) : print_zsh(line); });
}

}  // namespace kedge::cli
