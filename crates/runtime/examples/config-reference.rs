//! Prints the page that lists every key of `longhaul.yml` with its default.

use std::io::Write as _;

const STRATEGIES: &str = "\
## Strategies

`context.compression.strategy` says how old messages make room once the trigger is reached. `trigger` moves the point where \
it acts; `overflow` waits until what is usable is full, `manual` acts only on request. When a request would not fit at all, every strategy \
acts, also with `manual`. An option that belongs to other strategies is an error.

| strategy | acts at | own options (default) | what it does, and what it is good for |
| --- | --- | --- | --- |
| `reactive-overflow` | a full window | `preserveLastNTurns` (2), `maxSummaryTokens` (2000), `summarizeWith`, `summaryTimeout` | One summary of all but the newest turns, as late as possible. For short work, and models whose tokens cost nothing. |
| `proactive-threshold` | 50 % of the window | `preserveRatio` (0.3), `maxSummaryTokens` (2000), `summarizeWith`, `summaryTimeout` | The same, early, with a share of the conversation kept. For models that answer worse or slower when the window is full. |
| `middle-removal` | 80 % | `keepTokens` (as the trigger) | The first turn and the newest messages stay, the middle goes. No model call. For sessions in which the first message is the task. |
| `truncation` | 85 % | `keepRecent` (10) | The newest messages stay. No model call, nothing to go wrong. For chats in which only the last exchanges matter. |
| `importance` | 85 % | `keepRecent` (10), `userMessageScore` (1.0), `assistantMessageScore` (0.6), `toolUseScore` (1.0), `minScoreThreshold` (0.3) | Every older message gets a score, the lowest go first. No model call. For conversations with much small talk between what counts. |
| `summarization` | 85 % | `keepRecent` (10), `summarizeChunkSize` (20), `maxSummaryTokens` (500, of each), `summarizeWith`, `summaryTimeout` | A short summary for every so many old messages; those that are there stay. For long talks on one subject after another, and for small models that write short summaries well and long ones badly. |
| `pruning-agent` | 80 % | `maxSummaryTokens` (2000), `summaryTimeout`, and `context.pruningAgent` beside `compression` | A model reads the old messages and says which stay as they are, which become shorter, and which go. The dearest and the most selective. |
| `adaptive` | when it pays | `lowTarget` (0.4), `tailTokens` (6000), `preserveLastNTurns` (2), `maxSummaryTokens` (1500), `background` (true), `summarizeWith`, `summaryTimeout` | The default. What the user typed stays in the user's own words. The oldest rest becomes a ledger and a short summary that was written ahead. A program makes the ledger: open todos, files, facts, errors, names. Where clearing old tool results is enough, nothing else goes. A part of fewer than 4,000 tokens is not worth a model call: an extract stands below the ledger instead. |

Before all but `pruning-agent` and `adaptive` act, old tool results are cleared by mark if that alone is enough: \
`pruneProtectTokens`, `pruneMinimumTokens` and `protectedTools` say which. `adaptive` clears by itself and minds the first \
and the last of them. Cleared or left out, everything stays in the log, and `recall` finds it.

`truncation` is also the last resort of every other strategy: where what that would do is not enough, the newest messages that \
fit stay, and the row says `truncation`. A trigger beyond what is usable (the window without the room for the answer) acts \
there; `longhaul context` says so. In windows of less than 4,000 tokens there is hardly room for a ledger or for \
all that the user typed: pin the rules that must stay.

When `adaptive` acts depends on prices, if `models.NAME.prices` declares them for the model or it is one whose list prices \
are known (`longhaul models` shows them): an edit makes every later call cheaper and has the provider read the conversation \
anew once. It waits until that pays, and acts earlier when the provider's cache has run out anyway. Without prices it acts when the window is full, or where `trigger` says.

`summarizeWith` may be a map with the keys of `model`, for a model with a provider, a server and a key of its own: \
`summarizeWith: { provider: anthropic, name: claude-haiku-4-5, api_key_env: ANTHROPIC_API_KEY }`. `name` is required, \
and `provider` or `base_url`. As a name, `summarizeWith` and `context.pruningAgent` mean another model of the same \
server, which gets the same key (the second also \
an [agent](#more-agents), whose model then prunes); its window is `models.NAME.window`, or what the server says, or 32,000 tokens. The session's own model can often be asked for a summary at \
the end of the request that the provider has in its cache; another model is sent what goes as text.
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
shown. It is among the tools from the moment something of a session is pruned, truncated or compacted, and then stays; no \
other tool comes or goes within a session, so that the provider's cache holds.

**Small windows.** Below 16,000 tokens the built-in tools are described in few words and take at most 500 tokens: `read`, \
`bash`, `edit`, `write`, `grep`, and `recall` once it is due. `glob` and `ls` are left to `bash` unless `tools.enabled` names \
them. The default system prompt is two sentences there, and `AGENTS.md` has at most an eighth of the window; the model can \
read the rest of it.
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

Each is checked like the main file, and has nothing of it: what it does not say has its default. `server`, `telemetry` and \
`blobs.maxBytes` hold for the process and are read in the main file only; an agent has no `agents` of its own. A found file is \
trusted with an agent no more than with the same keys of its own.

`longhaul serve` makes all of them when it begins. One that cannot be used, because its key or an MCP server is missing, does \
not stop it: `GET /api/agents` says why. `POST /api/sessions` and `POST /api/message` take `agent` for a new session; without \
it the file's own agent answers. `POST /api/sessions/{id}/llm` gives a session another agent, or another model: one of an \
agent, or one that the main agent's server lists. Its history stays, and a smaller window is made room for before the next \
call. A busy session is switched between two steps. The choice is kept in the session's log: after a restart the same agent \
answers. If it is not configured any more the session can be read and switched, and takes no message. `run`, `chat` and the \
other commands know only the file's own agent, which then has every session.

## Settings

While `longhaul serve` runs, `PUT /api/settings` (the page's settings) changes a few of these keys: `strategy`, `trigger` \
(`{ percentage }`, `{ triggerTokens }`, `{ type }`, or `\"none\"` for the strategy's own), `pruningAgent` (`__same__`, an agent, or a listed model), `autoRecall` and \
`summarizeWith`. Nothing else can be changed that way. What is not named stays, and `null` gives a key back to the agent file. \
A change is checked as a whole, kept in `settings.json` in the data folder, and holds from the next decision of every session and the next request to the gateway \
on, whichever agent it has. Settings stand above the agent file; `serve` says in a line that there are some. Where they choose \
another strategy than the file, it has its default options. A damaged `settings.json` is told of and not used; the next change \
puts it aside as `settings.json.damaged`. Other commands do not read it.
";

fn main() -> std::io::Result<()> {
    let reference = longhaul::config::AgentConfig::reference();
    write!(
        std::io::stdout(),
        "# The agent file\n\n`longhaul.yml` is looked for in the current folder, then in the user's configuration folder; `--config` names \
         another. Unknown keys and bad values are errors that name the line and the nearest valid key. `maxSteps` and \
         `max_steps` are one key: each key below has both spellings. Keys of later \
         capabilities are refused by name. For editors: [longhaul.schema.json](../longhaul.schema.json). What hooks are \
         asked and answer: [hooks.md](hooks.md); MCP servers: [mcp.md](mcp.md); how old messages make room: \
         [Strategies](#strategies); which tools there are: [Tools](#tools); agents beside the file's own: [More agents](#more-agents); what the page may change: \
         [Settings](#settings).\n\nEvery key with its default:\n\n```yaml\n{reference}```\n\n{STRATEGIES}\n{TOOLS}\n{AGENTS}"
    )
}
