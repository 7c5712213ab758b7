//! Prints the page that lists every key of `longhaul.yml` with its default.

use std::io::Write as _;

const STRATEGIES: &str = "\
## Strategies

`context.compression.strategy` says how old messages make room once the trigger is reached. `trigger` sets that point. With \
`overflow` the strategy waits until the usable room is full. With `manual` it acts only on request. Every strategy acts when a \
request would not fit at all, also with `manual`. An option of another strategy is an error.

| strategy | acts at | own options (default) | what it does, and what it is good for |
| --- | --- | --- | --- |
| `reactive-overflow` | a full window | `preserveLastNTurns` (2), `maxSummaryTokens` (2000), `summarizeWith`, `summaryTimeout` | One summary of all but the newest turns, as late as possible. For short work, and models whose tokens cost nothing. |
| `proactive-threshold` | 50 % of the window | `preserveRatio` (0.3), `maxSummaryTokens` (2000), `summarizeWith`, `summaryTimeout` | The same, early, with a share of the conversation kept. For models that answer worse or slower when the window is full. |
| `middle-removal` | 80 % | `keepTokens` (by default the trigger) | The first turn and the newest messages stay, the middle goes. No model call. For sessions in which the first message is the task. |
| `truncation` | 85 % | `keepRecent` (10) | The newest messages stay. No model call, nothing to go wrong. For chats in which only the last exchanges matter. |
| `importance` | 85 % | `keepRecent` (10), `userMessageScore` (1.0), `assistantMessageScore` (0.6), `toolUseScore` (1.0), `minScoreThreshold` (0.3) | Every older message gets a score, the lowest go first. No model call. For conversations with much small talk between what counts. |
| `summarization` | 85 % | `keepRecent` (10), `summarizeChunkSize` (20), `maxSummaryTokens` (500, of each), `summarizeWith`, `summaryTimeout` | A short summary for every so many old messages. Earlier summaries stay as they are. For long talks on one subject after another, and for small models that write short summaries well and long ones badly. |
| `pruning-agent` | 80 % | `maxSummaryTokens` (2000), `summaryTimeout`, and `context.pruningAgent` beside `compression` | A model reads the old messages and says which stay as they are, which become shorter, and which go. The dearest and the most selective. |
| `adaptive` | when it pays | `lowTarget` (0.4), `tailTokens` (6000), `preserveLastNTurns` (2), `maxSummaryTokens` (1500), `background` (true), `summarizeWith`, `summaryTimeout` | The default. What the user typed stays in the user's own words. The oldest rest becomes a ledger and a short summary that was written ahead. A program makes the ledger: open todos, files, facts, errors, names. Where clearing old tool results is enough, nothing else goes. A part of fewer than 4,000 tokens is not worth a model call: an extract stands below the ledger instead. |

Most strategies first clear old tool results, and act only if that is not enough. `pruneProtectTokens`, `pruneMinimumTokens` \
and `protectedTools` limit what is cleared. `pruning-agent` clears nothing. `adaptive` clears by a rule of its own, and obeys \
`pruneProtectTokens` and `protectedTools`. All of it stays in the log, where `recall` finds it.

`truncation` is also the last resort of every other strategy. If the strategy's own edit is not enough, only the newest messages \
that fit stay, and the row says `truncation`. The usable room is the window without the room for the answer. A trigger beyond \
it acts where that room ends, and `longhaul context` says so. Windows of less than 4,000 tokens have little room for a ledger, or for \
all that the user typed. Pin the rules that must stay.

`adaptive` chooses its moment by prices, if it knows them. They stand in `models.NAME.prices`, or in the list that `longhaul models` \
shows. An edit makes every later call cheaper, but the provider has to read the whole conversation once more. So \
`adaptive` waits until an edit pays. It acts earlier when the provider's cache has expired anyway. Without prices it acts when the window is \
full, or where `trigger` says.

`summarizeWith` may be a map with the keys of `model`. It names a model with a provider, a server and a key of its own: \
`summarizeWith: { provider: anthropic, name: claude-haiku-4-5, api_key_env: ANTHROPIC_API_KEY }`. `name` is required, \
and so is `provider` or `base_url`.

`summarizeWith` and `context.pruningAgent` may also be the name of another model on the same server, which gets the same key. \
`pruningAgent` may name an [agent](#more-agents), too: then that agent's model prunes. The window of such a model is \
`models.NAME.window`, or what the server says, or 32,000 tokens. The session's own model is usually asked at the end of the request that \
the provider has in its cache. Another model is sent only the messages that leave the view, as text.
";

const TOOLS: &str = "\
## Tools

```yaml
tools:
  enabled: [read, bash, edit]                  # of the built-in tools only these
  bash: { maxOutputChars: 8000 }
  files__search: { maxOutputChars: 4000 }      # the tool `search` of the MCP server `files`
```

The built-in tools are `read`, `bash`, `edit`, `write`, `grep`, `glob`, `ls` and `recall`. `recall` returns what is no longer \
shown. It joins the tools when something of a session is first pruned, truncated or compacted, and then stays. No \
other tool comes or goes within a session, so the provider's cache stays valid.

**Small windows.** Below 16,000 tokens the descriptions of the built-in tools are short, and take at most 500 tokens. The tools are `read`, \
`bash`, `edit`, `write`, `grep`, and `recall` once it is due. `glob` and `ls` are left out unless `tools.enabled` names \
them, because `bash` can do the same. The default system prompt has two sentences there. `AGENTS.md` takes at most an eighth of the window, \
and the model can read the rest of it.
";

const AGENTS: &str = "\
## More agents

```yaml
agents:
  reviewer: ./reviewer.yml            # an agent file of its own, seen from this one
  small:                              # or its keys
    model: { name: qwen3-4b, base_url: \"http://localhost:1234/v1\" }
    context: { compression: { strategy: truncation } }
```

Each agent is checked like the main file, and inherits nothing from it. A key that it does not set has its default. `server`, \
`telemetry` and `blobs.maxBytes` hold for the process and are read in the main file only. An agent has no `agents` of its own. \
An agent in a found file is trusted no more than the same keys in that file.

`longhaul serve` makes all agents when it starts. An agent whose key or MCP server is missing does not stop the server: \
`GET /api/agents` says what is missing. `run`, `chat` and the other commands know only the file's own agent, and use it for every session.

| to choose an agent or a model | request |
| --- | --- |
| for a new session | `agent` in `POST /api/sessions` or `POST /api/message`. The default is the file's own agent |
| for a session that exists | `POST /api/sessions/{id}/llm` with an agent, or with a model of an agent or of the main agent's server |

The session keeps its history. If the new window is smaller, room is made before the next call. A busy session is switched \
between two steps. The choice is stored in the session's log, so it survives a restart. A session whose agent is no longer configured \
can be read and switched, but takes no message.

## Settings

While `longhaul serve` runs, `PUT /api/settings` (the page's settings) changes a few keys:

| key | values |
| --- | --- |
| `strategy` | the name of a strategy. Another strategy than the file's has its default options |
| `trigger` | `{ percentage }`, `{ triggerTokens }`, `{ type }`, or `\"none\"` for the strategy's own |
| `pruningAgent` | `__same__`, an agent, or a listed model |
| `autoRecall`, `summarizeWith` | as in the agent file |

A key that the request does not name stays as it is. `null` returns a key to the agent file. A change is checked as a whole and kept in \
`settings.json` in the data folder. It holds for sessions of every agent from their next decision, and for the gateway from \
its next request. Settings stand above the agent file, and `serve` prints a line if there are any. Other commands do not read them. \
A damaged `settings.json` is reported and not used. The next change renames it to `settings.json.damaged`.
";

fn main() -> std::io::Result<()> {
    let reference = longhaul::config::AgentConfig::reference();
    write!(
        std::io::stdout(),
        "# The agent file\n\n`longhaul.yml` is looked for in the current folder, then in the user's configuration folder. `--config` names \
         another. Unknown keys and bad values are errors that name the line and the nearest valid key. `maxSteps` and \
         `max_steps` are one key: each key below has both spellings.\n\nBelow the keys: [Strategies](#strategies), [Tools](#tools), \
         [More agents](#more-agents) and [Settings](#settings), which the page may change. Other pages: [hooks](hooks.md), \
         [MCP servers](mcp.md). Editors can check the file by [longhaul.schema.json](../longhaul.schema.json).\n\nEvery key with its default:\n\n```yaml\n{reference}```\n\n{STRATEGIES}\n{TOOLS}\n{AGENTS}"
    )
}
