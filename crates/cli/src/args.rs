//! The command line of `longhaul`.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, RangedU64ValueParser};
use clap::{Args as Group, Parser, Subcommand};

const AFTER: &str = "\
Exit status: 0 done · 1 the run ended otherwise than by its answer · 2 usage or configuration · 130 cancelled.
Data goes to standard output, everything else to standard error.

Without a command: `serve --open`, with the options of `serve`.

Try it without a model:
  longhaul demo
  longhaul --provider scripted chat
      an echo that calls tools: `!ls -la` makes it call bash, `@FILE` read";

/// Agents whose conversations outgrow the model's window and lose no message.
#[derive(Debug, Parser)]
#[command(name = "longhaul", version, after_help = AFTER, max_term_width = 100)]
pub(crate) struct CliArgs {
    /// The options of every command.
    #[command(flatten)]
    pub(crate) globals: GlobalArgs,
    /// The options without a command.
    #[command(flatten, next_help_heading = "Without a command")]
    pub(crate) bare: ServeArgs,
    /// The command. Without one, the server starts and the page opens.
    #[command(subcommand)]
    pub(crate) command: Option<CliCommand>,
}

impl CliArgs {
    /// Returns whether the process serves until it is told to end.
    pub(crate) fn is_server(&self) -> bool {
        matches!(self.command, None | Some(CliCommand::Serve(_)))
    }
}

/// The options of every command.
#[derive(Clone, Debug, Default, Group)]
pub(crate) struct GlobalArgs {
    /// The agent file [default: ./longhaul.yml, then the one in your configuration folder]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Everywhere")]
    pub(crate) config: Option<PathBuf>,
    /// The folder of the sessions [default: your data folder]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Everywhere")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The folder in which the agent works [default: the current folder]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Everywhere")]
    pub(crate) workspace: Option<PathBuf>,
    /// The model's provider: openai-compatible, openai, anthropic, gemini, ollama, or scripted (an echo for trials)
    #[arg(long, global = true, value_name = "NAME", help_heading = "Everywhere")]
    pub(crate) provider: Option<String>,
    /// The model's name on its server
    #[arg(long, global = true, value_name = "NAME", help_heading = "Everywhere")]
    pub(crate) model: Option<String>,
    /// The base URL of the model's server, including /v1
    #[arg(long, global = true, value_name = "URL", help_heading = "Everywhere")]
    pub(crate) base_url: Option<String>,
}

/// The port of a server without a named one, for corrections.
const DEFAULT_PORT: u16 = 4400;

/// A count of something that is asked for.
fn at_least_one() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

/// The name of a strategy.
fn strategies() -> PossibleValuesParser {
    PossibleValuesParser::new(longhaul_core::strategy::NAMES.iter().copied())
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Chat with the agent; you can type while it works, Ctrl-C cancels
    Chat(ChatArgs),
    /// Give the agent one task and print the answer
    Run(RunArgs),
    /// Watch a conversation outgrow its window, in half a minute and without a model
    Demo(DemoArgs),
    /// List, show, export, import, fork and delete sessions
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// Show what fills a session's context window
    Context(ContextArgs),
    /// Compact a session now, or preview it
    Compact(CompactArgs),
    /// List a session's compactions: time, reason, cost, what each kept, and whether it can be undone
    Compactions(CompactionsArgs),
    /// Undo a compaction or pruning: the newest, or the named one
    Undo(UndoArgs),
    /// List a session's standing orders, which the model always sees
    Orders(OrdersArgs),
    /// Find and print any content of a session's history, by words or by handle
    Recall(RecallArgs),
    /// Count the tokens of a file
    Tokens(TokensArgs),
    /// List the models with windows, abilities, prices and the source of each figure
    Models(ModelsArgs),
    /// Serve sessions over HTTP; prints the address when ready
    Serve(ServeArgs),
    /// Serve an editor as its agent over standard input and output (Agent Client Protocol)
    Acp(AcpArgs),
    /// Serve the sessions to an MCP client over standard input and output: recall, search, status, compact
    Mcp,
    /// Replay recorded sessions to compare the cost and retention of context policies
    #[command(subcommand)]
    Lab(LabCommand),
    /// Point a client at the gateway: print the client's settings, write them, or start the client with them
    Wrap(WrapArgs),
    /// Copy all sessions from the data folder into a PostgreSQL database, or back
    Migrate(MigrateArgs),
    /// Copy all sessions into an empty folder, also while a server uses them
    Backup(BackupArgs),
    /// Restore the sessions of a backup into an empty data folder or database
    Restore(RestoreArgs),
    /// Check the setup: servers, keys, folders, sandbox
    Doctor,
}

/// `migrate`.
#[derive(Debug, Group)]
pub(crate) struct MigrateArgs {
    /// The PostgreSQL database that receives the data folder's sessions
    #[arg(long, value_name = "URL", conflicts_with = "from")]
    pub(crate) to: Option<String>,
    /// The PostgreSQL database whose sessions are copied into the data folder
    #[arg(long, value_name = "URL")]
    pub(crate) from: Option<String>,
    /// The place of the images and long outputs of that database: s3://BUCKET/PREFIX or a path [default: the data folder]
    #[arg(long, value_name = "URL")]
    pub(crate) blobs: Option<String>,
}

/// `restore`.
#[derive(Debug, Group)]
pub(crate) struct RestoreArgs {
    /// The folder of the backup
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// The PostgreSQL database that receives the sessions [default: the data folder]
    #[arg(long, value_name = "URL")]
    pub(crate) db: Option<String>,
    /// With --db: the place for images and long outputs, s3://BUCKET/PREFIX or a path [default: the data folder]
    #[arg(long, value_name = "URL", requires = "db")]
    pub(crate) blobs: Option<String>,
}

/// `backup`.
#[derive(Debug, Group)]
pub(crate) struct BackupArgs {
    /// The folder of the backup
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// The PostgreSQL database with the sessions [default: the data folder]
    #[arg(long, value_name = "URL")]
    pub(crate) db: Option<String>,
    /// With --db: the place of images and long outputs, s3://BUCKET/PREFIX or a path
    #[arg(long, value_name = "URL", requires = "db")]
    pub(crate) blobs: Option<String>,
}

/// `wrap`.
#[derive(Debug, Group)]
pub(crate) struct WrapArgs {
    /// The client: claude, codex, opencode, qwen, aider, pi, continue, cline, mini; openai and anthropic for programs
    /// that are built with their makers' libraries
    #[arg(value_name = "CLIENT")]
    pub(crate) client: String,
    /// The gateway's URL [default: the running server's, else its default address]
    #[arg(long, value_name = "URL")]
    pub(crate) at: Option<String>,
    /// Write the settings into the client's own files; asks first and keeps a copy of the old files
    #[arg(long, conflicts_with_all = ["undo", "run"])]
    pub(crate) write: bool,
    /// Restore the client's files as they were before --write
    #[arg(long, conflicts_with = "run")]
    pub(crate) undo: bool,
    /// Do not ask for confirmation
    #[arg(short = 'y', long)]
    pub(crate) yes: bool,
    /// Start the client with these settings once; arguments after `--` go to the client
    #[arg(long)]
    pub(crate) run: bool,
    /// The arguments of the client
    #[arg(last = true, requires = "run", value_name = "ARGS")]
    pub(crate) args: Vec<String>,
}

/// `lab`.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Compare policies on recorded sessions; no model is called. The strategy of the agent file acts with the
    /// options of the file, all others with their defaults
    Replay(ReplayArgs),
    /// Measure what views keep: of public data with --receipts, of sessions of your own with FILE; no model is called
    Score(ScoreArgs),
}

/// `lab score`.
#[derive(Debug, Group)]
pub(crate) struct ScoreArgs {
    /// Recorded sessions that `sessions import` reads: what each policy keeps, its cost and its waiting
    #[arg(required_unless_present = "receipts", conflicts_with = "receipts", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The folder with the public data; runs every public measure, which takes minutes
    #[arg(long, value_name = "DIR")]
    pub(crate) receipts: Option<PathBuf>,
    /// The window for sessions, in tokens or as a share of each session's peak
    #[arg(long, value_name = "TOKENS|N%", default_value = "50%")]
    pub(crate) window: String,
    /// Print JSON
    #[arg(long, conflicts_with = "html")]
    pub(crate) json: bool,
    /// Write an HTML page to this file in place of the table; `-` is standard output
    #[arg(long, value_name = "OUT")]
    pub(crate) html: Option<PathBuf>,
}

/// `lab replay`.
#[derive(Debug, Group)]
pub(crate) struct ReplayArgs {
    /// Files that `sessions import` reads; all their sessions are replayed
    #[arg(required_unless_present = "synthetic", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The policies [default: all]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) policy: Vec<String>,
    /// The windows: in tokens, or as a share of each session's peak
    #[arg(long, value_name = "TOKENS|N%,…", value_delimiter = ',', default_value = "25%,50%,75%")]
    pub(crate) window: Vec<String>,
    /// The price tables, the main one first; `all` uses all
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "anthropic-sonnet")]
    pub(crate) prices: Vec<String>,
    /// Leave out sessions with a smaller peak
    #[arg(long, value_name = "TOKENS", default_value_t = 8_000)]
    pub(crate) min_tokens: u64,
    /// Add long generated sessions, which are labelled
    #[arg(long)]
    pub(crate) synthetic: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "html")]
    pub(crate) json: bool,
    /// Write an HTML page to this file in place of the table; `-` is standard output
    #[arg(long, value_name = "OUT")]
    pub(crate) html: Option<PathBuf>,
}

/// An address as others ask for it.
fn host_and_port(text: &str) -> Result<String, String> {
    let port = text.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    // The address is tried as a part of a URL, because other nodes put it into one.
    match reqwest::Url::parse(&format!("http://{text}")) {
        Ok(url) if port.is_some_and(|port| port > 0) && url.path() == "/" && url.username().is_empty() => {
            Ok(text.to_owned())
        }
        _ => Err("a name or an address, and a port, for example 10.0.0.1:4400".to_owned()),
    }
}

/// Reads the address to listen on: an address or a name of this machine with a port, or a port alone.
///
/// # Errors
/// A correction, as it must be typed.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    if let Ok(address) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Err(format!("the port is missing; write {}", SocketAddr::new(address, DEFAULT_PORT)));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some(parts) => parts,
        None if text.bytes().all(|byte| byte.is_ascii_digit()) => ("127.0.0.1", text),
        None => return Err(format!("the port is missing; write {text}:{DEFAULT_PORT}")),
    };
    let Ok(port) = port.parse::<u16>() else {
        return Err(format!("the port must be a number from 0 to 65535, not `{port}`"));
    };
    if host.is_empty() {
        return Err(format!("write 127.0.0.1:{port} for this machine alone, or 0.0.0.0:{port} for all"));
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        return if address.is_ipv6() {
            Err(format!("an IPv6 address stands in brackets; write {}", SocketAddr::new(address, port)))
        } else {
            Ok(SocketAddr::new(address, port))
        };
    }
    let found: Vec<SocketAddr> = (host, port).to_socket_addrs().map(Iterator::collect).unwrap_or_default();
    let own = || found.iter().filter(|address| address.ip().is_loopback());
    // IPv4 comes first: the default address is one, and other programs are told to connect to it.
    match (own().find(|address| address.is_ipv4()).or_else(|| own().next()), found.first()) {
        (Some(address), _) => Ok(*address),
        // A name may change its address, and other machines may reach it. The address itself is a decision.
        (None, Some(address)) => Err(format!("{host} is not a name of this machine alone; write {address}")),
        (None, None) => Err(format!("the host {host} is unknown; write 127.0.0.1:{port}")),
    }
}

/// `serve`.
#[derive(Debug, Default, PartialEq, Eq, Group)]
pub(crate) struct ServeArgs {
    /// The address to listen on [default: the agent file's, or 127.0.0.1:4400]; port 0 picks a free port
    #[arg(long, value_name = "HOST:PORT", value_parser = listen_address)]
    pub(crate) addr: Option<SocketAddr>,
    /// The file with the token that clients must send [default: `token` in the data folder, created if missing]
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Keep the sessions in this PostgreSQL database, which several nodes may share [default: the data folder]
    #[arg(long, value_name = "URL")]
    pub(crate) db: Option<String>,
    /// With --db: the address at which other nodes reach this one [default: the listening address]
    #[arg(long, value_name = "HOST:PORT", requires = "db", value_parser = host_and_port)]
    pub(crate) advertise: Option<String>,
    /// With --db: a folder or bucket for images and long outputs that all nodes share, s3://BUCKET/PREFIX or a path
    #[arg(long, value_name = "URL", requires = "db")]
    pub(crate) blobs: Option<String>,
    /// Let tools run without asking
    #[arg(long)]
    pub(crate) yes: bool,
    /// Open the page in the browser, as `longhaul` without a command does
    #[arg(long)]
    pub(crate) open: bool,
}

/// `acp`.
#[derive(Debug, Default, Group)]
pub(crate) struct AcpArgs {
    /// Let tools run without asking in the editor
    #[arg(long)]
    pub(crate) yes: bool,
}

/// `chat`.
#[derive(Debug, Group)]
pub(crate) struct ChatArgs {
    /// Continue the last session
    #[arg(short = 'c', long = "continue", conflicts_with = "session")]
    pub(crate) last: bool,
    /// Continue a session: its id, the start of the id, or `last`
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Let tools run without asking
    #[arg(long)]
    pub(crate) yes: bool,
    /// In a terminal: print line by line and redraw only the input line
    #[arg(long)]
    pub(crate) plain: bool,
}

/// `run`.
#[derive(Debug, Group)]
pub(crate) struct RunArgs {
    /// The task; piped input is appended. `-` or no task reads it from standard input
    pub(crate) prompt: Option<String>,
    /// Print every event as one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
    /// Continue a session: its id, the start of the id, or `last`
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Let tools run without asking; otherwise tools that would ask are denied
    #[arg(long)]
    pub(crate) yes: bool,
}

/// `demo`.
#[derive(Debug, Group)]
pub(crate) struct DemoArgs {
    /// The folder whose files are read [default: the current folder, or built-in files if it has too few]
    pub(crate) folder: Option<PathBuf>,
    /// The model's context window in tokens
    #[arg(long, value_name = "TOKENS")]
    pub(crate) window: Option<u64>,
    /// Run without pauses
    #[arg(long)]
    pub(crate) fast: bool,
}

/// `sessions`.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List the sessions, the newest first
    List {
        /// Print one JSON array
        #[arg(long)]
        json: bool,
        /// The maximum number of sessions
        #[arg(short = 'n', long, default_value_t = 50, value_name = "COUNT", value_parser = at_least_one())]
        limit: usize,
    },
    /// Show a session's whole conversation
    Show {
        /// The session's id, the start of the id, or `last`
        #[arg(default_value = "last")]
        session: String,
    },
    /// Export a session as a file that `import` reads (.jsonl), or as Markdown (.md)
    Export {
        /// The session's id, the start of the id, or `last`
        session: String,
        /// The file; `-` or nothing is standard output. An existing file is not overwritten.
        file: Option<PathBuf>,
        /// Write Markdown, whatever the file name
        #[arg(long)]
        markdown: bool,
        /// Overwrite an existing file
        #[arg(long)]
        force: bool,
    },
    /// Import recorded conversations: own exports, sessions of pi and Claude Code, Chat Completions
    /// messages and request logs, SWE-agent trajectories, Inspect logs, TapeAgents tapes, tau-bench runs
    Import {
        /// The files; `-` is standard input
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Create a new session that shares the log up to a position
    Fork {
        /// The session's id, the start of the id, or `last`
        session: String,
        /// The last shared position [default: the newest]
        seq: Option<u64>,
        /// The last shared position
        #[arg(long, value_name = "SEQ", conflicts_with = "seq")]
        at: Option<u64>,
    },
    /// Delete a session for good
    Delete {
        /// Ids, starts of ids, or `last`
        #[arg(required = true)]
        sessions: Vec<String>,
        /// Do not ask for confirmation
        #[arg(short = 'y', long)]
        yes: bool,
    },
}

/// `context`.
#[derive(Debug, Group)]
pub(crate) struct ContextArgs {
    /// The session's id, the start of the id, or `last`
    #[arg(default_value = "last")]
    pub(crate) session: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `compact`.
#[derive(Debug, Group)]
pub(crate) struct CompactArgs {
    /// The session's id, the start of the id, or `last`
    #[arg(default_value = "last")]
    pub(crate) session: String,
    /// Preview the compaction without a change or a model call
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The strategy for this compaction [default: the configured one]; another one uses its default options
    #[arg(long, value_name = "NAME", value_parser = strategies())]
    pub(crate) strategy: Option<String>,
    /// Instructions for the summary
    #[arg(long, value_name = "TEXT")]
    pub(crate) instructions: Option<String>,
}

/// `compactions`.
#[derive(Debug, Group)]
pub(crate) struct CompactionsArgs {
    /// The session's id, the start of the id, or `last`
    #[arg(default_value = "last")]
    pub(crate) session: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `orders`.
#[derive(Debug, Group)]
pub(crate) struct OrdersArgs {
    /// The session's id, the start of the id, or `last`
    #[arg(default_value = "last")]
    pub(crate) session: String,
    /// List removed and superseded orders as well
    #[arg(long)]
    pub(crate) all: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `undo`.
#[derive(Debug, Group)]
pub(crate) struct UndoArgs {
    /// The session's id, the start of the id, or `last`
    #[arg(default_value = "last")]
    pub(crate) session: String,
    /// The compaction or pruning, for example e42 [default: the newest active one]
    pub(crate) edit: Option<String>,
}

/// `recall`.
#[derive(Debug, Group)]
pub(crate) struct RecallArgs {
    /// The session's id, the start of the id, or `last`
    pub(crate) session: String,
    /// Words to search for, or handles (lh:12, lh:12-40) whose exact originals are printed
    #[arg(required = true, value_name = "QUERY|HANDLES")]
    pub(crate) query: Vec<String>,
    /// The maximum number of hits of a search
    #[arg(short = 'n', long, default_value_t = 5, value_name = "COUNT", value_parser = at_least_one())]
    pub(crate) limit: usize,
}

/// `tokens`.
#[derive(Debug, Group)]
pub(crate) struct TokensArgs {
    /// The file; `-` is standard input
    pub(crate) file: PathBuf,
}

/// `models`.
#[derive(Debug, Group)]
pub(crate) struct ModelsArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use super::listen_address;

    #[test]
    fn an_address_to_listen_on_is_taken_or_corrected() {
        for (text, expected) in [
            ("127.0.0.1:4490", "127.0.0.1:4490"),
            ("4471", "127.0.0.1:4471"),
            ("localhost:4490", "127.0.0.1:4490"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(listen_address(text).map(|address| address.to_string()).as_deref(), Ok(expected));
        }
        for (text, correction) in [
            ("127.0.0.1:80000", "the port must be a number from 0 to 65535, not `80000`"),
            ("127.0.0.1", "the port is missing; write 127.0.0.1:4400"),
            ("::1", "the port is missing; write [::1]:4400"),
            ("localhost", "the port is missing; write localhost:4400"),
            (":4400", "write 127.0.0.1:4400 for this machine alone, or 0.0.0.0:4400 for all"),
        ] {
            assert_eq!(listen_address(text).unwrap_err(), correction, "{text}");
        }
    }
}
