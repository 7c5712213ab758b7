//! What was played.

use std::fmt;

macro_rules! stats {
    ($($name:ident),* $(,)?) => {
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub(crate) struct Stats { $(pub(crate) $name: u64),* }

        impl Stats {
            pub(crate) fn add(&mut self, other: &Stats) { $(self.$name += other.$name;)* }
        }

        impl fmt::Display for Stats {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $(write!(f, "{} {} · ", self.$name, stringify!($name).replace('_', " "))?;)*
                Ok(())
            }
        }
    };
}

stats! {
    sessions, events, requests, messages, taken, changed_under_a_take, removed, edited, counts, answers, retries, broken_answers, outages, waits_that_were_cut_short,
    summaries, pruning_agents, pruned_by_agents, summaries_ahead, written_ahead, hooks, tools_run, results_truncated, approvals, prunes, compactions, model_summaries, extracts, last_resorts,
    compactions_on_request, refused_requests, undone, released, switches, overflows, overflows_without_numbers,
    overflows_although_it_fit, recovered_overflows, crashes, crashes_in_a_run, cancels, timeouts, recovery_steps,
    loops, parked, ended_stop, ended_max_steps, ended_cancelled, ended_timeout, ended_loop, ended_length,
    ended_error, ended_overflow, pauses, continuations, whole_answers, ended_max_compactions,
    orders, orders_told, repeated_answers,
}

impl Stats {
    /// A simulation that never meets a case proves nothing about it.
    pub(crate) fn assert_wide(&self, sessions: u64) {
        if sessions < 1_000 {
            return;
        }
        let met = [
            ("changed takes", self.changed_under_a_take),
            ("counts", self.counts),
            ("retries", self.retries),
            ("answers that broke off", self.broken_answers),
            ("outages", self.outages),
            ("attempts that somebody asked for", self.waits_that_were_cut_short),
            ("truncated results", self.results_truncated),
            ("approvals", self.approvals),
            ("prunes", self.prunes),
            ("summaries", self.model_summaries),
            ("extracts", self.extracts),
            ("edits by pruning agents", self.pruned_by_agents),
            ("summaries ahead", self.summaries_ahead),
            ("commits of what was written ahead", self.written_ahead),
            ("hooks", self.hooks),
            ("last resorts", self.last_resorts),
            ("compactions on request", self.compactions_on_request),
            ("undos", self.undone),
            ("switches", self.switches),
            ("recovered overflows", self.recovered_overflows),
            ("crashes in a run", self.crashes_in_a_run),
            ("parked", self.parked),
            ("stop", self.ended_stop),
            ("max steps", self.ended_max_steps),
            ("cancelled", self.ended_cancelled),
            ("time-out", self.ended_timeout),
            ("recovery steps", self.recovery_steps),
            ("loops", self.ended_loop),
            ("answers that repeat themselves", self.repeated_answers),
            ("length", self.ended_length),
            ("errors", self.ended_error),
            ("overflow ends", self.ended_overflow),
            ("standing orders", self.orders),
            ("notes on standing orders", self.orders_told),
            ("pauses", self.pauses),
            ("continuations", self.continuations),
            ("answers that were paused and came out whole", self.whole_answers),
        ];
        for (name, count) in met {
            assert!(count > 0, "no session met: {name}");
        }
    }
}
