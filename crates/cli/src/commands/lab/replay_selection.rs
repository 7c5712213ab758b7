//! The selection by name: policies, windows, price tables.

use std::sync::Arc;

use crate::lab::planner_policy::PlannerPolicy;
use crate::lab::policy::ContextPolicy;
use crate::lab::price::{PriceTable, tables};
use crate::lab::replay::{MakePolicy, ReplayWindow};
use crate::lab::report::{PolicyFacts, PolicyRole};
use crate::lab::rivals;
use longhaul::config::{AgentConfig, SummaryWriter};
use longhaul::config_agent;
use longhaul_core::plan::{self, SummaryWriterModel};
use longhaul_core::strategy;

use crate::args::ReplayArgs;
use crate::failure::{CommandError, Outcome};
use crate::hint::quoted;

/// The strategy that the report is about.
const SUBJECT: &str = "adaptive";

/// The policy that costs are compared with.
const BASELINE: &str = "append-only";

/// The selected policies, windows and prices of a replay.
#[derive(Clone)]
pub(super) struct ReplaySelection {
    pub(super) policies: Vec<String>,
    pub(super) windows: Vec<ReplayWindow>,
    pub(super) prices: Vec<PriceTable>,
    pub(super) configured: Option<ConfiguredStrategy>,
}

/// The strategy of the agent file, with its options.
#[derive(Clone)]
pub(super) struct ConfiguredStrategy {
    strategy: &'static str,
    policy: plan::CompactionPolicy,
    file: String,
}

impl ConfiguredStrategy {
    /// Returns the configured strategy, or `None` if the file changes nothing about compression.
    pub(super) fn of(config: &AgentConfig, file: String) -> Option<Self> {
        let compression = &config.context.compression;
        if *compression == AgentConfig::default().context.compression {
            return None;
        }
        let writer = match &compression.options.summarize_with {
            SummaryWriter::Extract => SummaryWriterModel::Nobody,
            SummaryWriter::Same | SummaryWriter::Model(_) | SummaryWriter::Own(_) => {
                SummaryWriterModel::Session
            }
        };
        // Everything else of a policy keeps its default: a replay has no queue, no hook and no clock.
        let whole = config_agent::compaction_policy(config);
        let policy = plan::CompactionPolicy {
            trigger: whole.trigger,
            prune: whole.prune,
            writer,
            ..plan::CompactionPolicy::new(whole.strategy)
        };
        Some(Self { strategy: compression.strategy.as_str(), policy, file })
    }

    /// Names the policies that have the options of the file, in a sentence. Returns `None` if none of them
    /// has.
    pub(super) fn said(&self, policies: &[String]) -> Option<String> {
        let is_replayed = policies.iter().any(|name| name == self.strategy);
        is_replayed.then(|| format!("{} acts with the options of {}.", self.strategy, self.file))
    }

    fn named(&self, name: &str) -> Option<Box<dyn ContextPolicy>> {
        if name != self.strategy {
            return None;
        }
        let policy = PlannerPolicy::new(name, self.policy.clone());
        Some(Box::new(policy.with_options_of(format!("the options of {}", self.file))))
    }
}

impl ReplaySelection {
    /// Returns the selection that the arguments name.
    ///
    /// # Errors
    /// Usage, for a name or a number that means nothing.
    pub(super) fn of(args: &ReplayArgs, configured: Option<ConfiguredStrategy>) -> Outcome<Self> {
        let windows: Outcome<Vec<ReplayWindow>> = args.window.iter().map(|it| window(it)).collect();
        let (policies, prices) = (policies(&args.policy)?, prices(&args.prices)?);
        Ok(Self { policies, windows: windows?, prices, configured })
    }

    /// Returns the policy of a name, with the options of the file if the policy is the file's.
    fn policy(&self, name: &str) -> Option<Box<dyn ContextPolicy>> {
        self.configured.as_ref().and_then(|it| it.named(name)).or_else(|| policy(name))
    }

    /// Returns a maker for each policy. Every use of a maker makes the policy again.
    pub(super) fn makers(&self) -> Vec<MakePolicy> {
        self.policies
            .iter()
            .filter_map(|name| -> Option<MakePolicy> {
                policy(name)?;
                let (wanted, name) = (self.clone(), name.clone());
                // A policy has state, so every replay needs one of its own.
                Some(Arc::new(move || {
                    // The name was checked above, so the fallback is never used.
                    wanted.policy(&name).unwrap_or_else(|| Box::new(rivals::AppendOnlyPolicy::default()))
                }))
            })
            .collect()
    }

    /// Returns the policies as the report presents them.
    pub(super) fn facts(&self) -> Vec<PolicyFacts> {
        self.policies
            .iter()
            .map(|name| PolicyFacts {
                name: name.clone(),
                role: role(name),
                sources: self.policy(name).map(|it| it.sources()).unwrap_or_default(),
            })
            .collect()
    }

    /// Returns the lines of the tables that are used.
    pub(super) fn price_sources(&self) -> Vec<String> {
        tables::sources()
            .into_iter()
            .filter(|line| {
                let name = line.split(" = ").next().unwrap_or_default();
                self.prices.iter().any(|it| it.name == name)
            })
            .collect()
    }
}

/// Returns a strategy of ours by its name, or a peer.
fn policy(name: &str) -> Option<Box<dyn ContextPolicy>> {
    let ours = PlannerPolicy::by_name(name).map(|it| Box::new(it) as Box<dyn ContextPolicy>);
    ours.or_else(|| rivals::named(name))
}

fn role(name: &str) -> PolicyRole {
    match name {
        SUBJECT => PolicyRole::Subject,
        BASELINE => PolicyRole::Baseline,
        _ if strategy::NAMES.contains(&name) => PolicyRole::Ours,
        _ => PolicyRole::Peer,
    }
}

/// Returns the baseline, the subject, the other strategies, and the peers.
fn all_policies() -> Vec<String> {
    let peers = rivals::all().into_iter().map(|it| it.name().to_owned());
    let mut names: Vec<String> = strategy::NAMES.iter().map(|it| (*it).to_owned()).chain(peers).collect();
    names.sort_by_key(|name| match role(name) {
        PolicyRole::Baseline => 0,
        PolicyRole::Subject => 1,
        PolicyRole::Ours => 2,
        PolicyRole::Peer => 3,
    });
    names
}

fn policies(wanted: &[String]) -> Outcome<Vec<String>> {
    if wanted.is_empty() {
        return Ok(all_policies());
    }
    let mut names: Vec<String> = Vec::new();
    for name in wanted {
        if policy(name).is_none() {
            let known = all_policies().join(", ");
            return Err(CommandError::usage(format!("no policy is called {name}; there are {known}")));
        }
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    Ok(names)
}

/// Parses a window: `32000`, or `50%` of each session's peak.
fn window(text: &str) -> Outcome<ReplayWindow> {
    let window = match text.strip_suffix('%') {
        Some(percent) => {
            percent.trim().parse().ok().filter(|it| (1..=100).contains(it)).map(ReplayWindow::PercentOfPeak)
        }
        None => text.trim().parse().ok().filter(|it| *it > 0).map(ReplayWindow::Tokens),
    };
    window.ok_or_else(|| {
        CommandError::usage(format!(
            "--window {text}: a number of tokens (32000) or a share of each session's peak (1% to 100%)"
        ))
    })
}

fn prices(wanted: &[String]) -> Outcome<Vec<PriceTable>> {
    let mut found: Vec<PriceTable> = Vec::new();
    for name in wanted {
        let named = if name == "all" { tables::all() } else { tables::named(name).into_iter().collect() };
        if named.is_empty() {
            let known: Vec<String> = tables::all().into_iter().map(|it| it.name).collect();
            return Err(CommandError::usage(format!(
                "no price table is called {name}; there are {} and `all`",
                known.join(", ")
            )));
        }
        let named: Vec<PriceTable> =
            named.into_iter().filter(|it| !found.iter().any(|known| known.name == it.name)).collect();
        found.extend(named);
    }
    Ok(found)
}

/// Returns the command line again, fit for a shell.
pub(super) fn command_line(args: &ReplayArgs, configured: Option<&ConfiguredStrategy>) -> String {
    let mut words = vec!["longhaul".to_owned()];
    words.extend(configured.into_iter().flat_map(|it| ["--config".to_owned(), it.file.clone()]));
    words.extend(["lab", "replay"].map(str::to_owned));
    words.extend(args.files.iter().map(|it| it.display().to_string()));
    let lists = [("--policy", &args.policy), ("--window", &args.window), ("--prices", &args.prices)];
    for (name, list) in lists {
        if !list.is_empty() {
            words.extend([name.to_owned(), list.join(",")]);
        }
    }
    words.extend(["--min-tokens".to_owned(), args.min_tokens.to_string()]);
    words.extend(args.synthetic.then(|| "--synthetic".to_owned()));
    words.extend(args.json.then(|| "--json".to_owned()));
    if let Some(page) = &args.html {
        words.extend(["--html".to_owned(), page.display().to_string()]);
    }
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_tokens_or_shares_of_the_peak() {
        assert_eq!(window("32000").ok(), Some(ReplayWindow::Tokens(32_000)));
        assert_eq!(window("25%").ok(), Some(ReplayWindow::PercentOfPeak(25)));
        for wrong in ["", "0", "0%", "101%", "-5", "half", "12.5%"] {
            let failure = window(wrong).err().map(|it| it.message().to_owned());
            assert!(failure.is_some_and(|it| it.contains("--window")), "{wrong}");
        }
    }

    #[test]
    fn every_policy_can_be_made_and_has_one_role() {
        let names = all_policies();
        assert_eq!(names[..2], [BASELINE, SUBJECT]);
        let wanted = ReplaySelection {
            policies: names.clone(),
            windows: Vec::new(),
            prices: Vec::new(),
            configured: None,
        };
        let made: Vec<String> = wanted.makers().iter().map(|make| make().name().to_owned()).collect();
        assert_eq!(made, names, "a policy calls itself as it is called");
        let facts = wanted.facts();
        assert!(facts.iter().all(|it| !it.sources.is_empty()), "{facts:?}");
        let of = |role| facts.iter().filter(|it| it.role == role).count();
        assert_eq!(
            (of(PolicyRole::Baseline), of(PolicyRole::Subject), of(PolicyRole::Ours)),
            (1, 1, strategy::NAMES.len() - 1)
        );
        assert!(of(PolicyRole::Peer) >= 6);
    }

    #[test]
    fn the_strategy_of_the_file_has_the_options_of_the_file() {
        let read =
            |text: &str| ConfiguredStrategy::of(&AgentConfig::parse(text, "f").unwrap(), "f.yml".to_owned());
        assert!(read("{}").is_none() && read("run: { maxSteps: 3 }").is_none(), "nothing is said of it");
        let file = "context: { compression: { strategy: truncation, trigger: { triggerTokens: 900 }, \
                    options: { keepRecent: 3, pruneMinimumTokens: 5 } } }";
        let configured = read(file).unwrap();
        assert_eq!(configured.policy.strategy.name(), "truncation");
        assert_eq!(configured.policy.trigger, Some(longhaul_core::budget::StrategyTrigger::Tokens(900)));
        assert_eq!(configured.policy.prune.minimum_tokens, 5);
        let names = ["truncation".to_owned(), "adaptive".to_owned()];
        let said = configured.said(&names);
        assert_eq!(said.as_deref(), Some("truncation acts with the options of f.yml."));
        assert_eq!(configured.said(&names[1..]), None, "it is not replayed");
        let wanted = ReplaySelection {
            policies: names.to_vec(),
            windows: Vec::new(),
            prices: Vec::new(),
            configured: Some(configured),
        };
        let sources: Vec<String> = wanted.facts().into_iter().flat_map(|it| it.sources).collect();
        assert!(sources[0].ends_with("truncation and the options of f.yml"), "{sources:?}");
        assert!(sources[1].ends_with("adaptive and its defaults"), "{sources:?}");
        let extract = read("context: { compression: { options: { summarizeWith: extract } } }");
        assert_eq!(extract.map(|it| it.policy.writer), Some(SummaryWriterModel::Nobody));
    }

    #[test]
    fn names_are_taken_once_and_unknown_ones_are_told_what_there_is() {
        assert_eq!(
            policies(&names(&["codex", "adaptive", "codex"])).ok(),
            Some(names(&["codex", "adaptive"]))
        );
        let failure = policies(&names(&["codx"])).err().unwrap();
        assert!(failure.message().contains("codx") && failure.message().contains("codex"), "{failure:?}");
        let tables = prices(&names(&["deepseek", "all"])).unwrap();
        assert_eq!(tables[0].name, "deepseek", "the leading one first");
        assert_eq!(tables.len(), tables::all().len());
        assert!(prices(&names(&["gold"])).err().unwrap().message().contains("deepseek"));
        let wanted =
            ReplaySelection { policies: Vec::new(), windows: Vec::new(), prices: tables, configured: None };
        assert_eq!(wanted.price_sources().len(), wanted.prices.len());
    }

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|it| (*it).to_owned()).collect()
    }

    #[test]
    fn the_command_can_be_pasted_into_a_shell() {
        assert_eq!([quoted("a/b-c.json"), quoted("it's"), quoted("")], ["a/b-c.json", r"'it'\''s'", "''"]);
    }
}
