//! Answers that are paused, in the simulated world: what the model means to say, and whether it comes out as meant.

use longhaul_core::estimate;
use longhaul_core::event::{Event, EventBody, PartialAnswerReason};
use longhaul_core::message::{ModelAnswer, ModelStopReason, Part};
use longhaul_core::run::MAX_PAUSES;
use longhaul_core::usage::Usage;

use super::model::Course;
use super::world::SimulatedRun;

impl SimulatedRun {
    /// A model goes on where it was, or begins to say something else; and stops where it is to pause, or before.
    pub(crate) fn means_to_say(&mut self, course: &mut Course, max_output: u64, pause_at: Option<u64>) {
        let goes_on = self.run.history().is_paused();
        assert!(!goes_on || self.settings.model.prefill, "a model that cannot go on is asked to");
        if goes_on {
            let said = self.run.history().view().last().map(|item| item.message.text()).unwrap_or_default();
            let saying = self.saying.as_deref().expect("it was saying something");
            let rest = saying.strip_prefix(said.as_str()).expect("nothing of what it said was changed");
            match &mut course.end {
                Ok(answer) => go_on(answer, rest, max_output),
                Err((_, partial)) if !partial.is_empty() => {
                    let end = rest.floor_char_boundary(self.rng.below(rest.len() as u64 + 1) as usize);
                    *partial = vec![Part::text(&rest[..end])];
                }
                Err(_) => {}
            }
            self.stats.continuations += 1;
        } else {
            let parts = match &course.end {
                Ok(answer) => &answer.parts,
                Err((_, partial)) => partial,
            };
            let said: String = parts.iter().filter_map(Part::as_text).collect();
            let is_broken = course.end.is_err() && !said.is_empty();
            self.saying =
                Some(if is_broken { said + ", and this is how it goes on after that" } else { said });
        }
        if let Some(at) = pause_at {
            assert!(at < max_output, "it would be cut off at {max_output} before it pauses at {at}");
            course.pauses = self.pauses(course, at);
        }
    }

    fn pauses(&mut self, course: &mut Course, at: u64) -> bool {
        let Ok(answer) = &mut course.end else { return false };
        let is_text = |part: &Part| matches!(part, Part::Text(_) | Part::Reasoning(_));
        let tokens: u64 = answer.parts.iter().map(estimate::part_tokens).sum();
        if !answer.parts.iter().all(is_text) || tokens < at && !self.rng.chance(50) {
            return false;
        }
        let Some(Part::Text(text)) = answer.parts.last_mut() else { return false };
        let end = text.text.floor_char_boundary(self.rng.below(text.text.len() as u64 + 1) as usize);
        if text.text[..end].trim().is_empty() {
            return false;
        }
        text.text.truncate(end);
        let input_tokens = answer.usage.as_ref().map_or(100, |usage| usage.input_tokens);
        answer.usage =
            self.rng.chance(20).then(|| Usage { input_tokens, output_tokens: 5, ..Usage::default() });
        self.stats.pauses += 1;
        true
    }

    /// After an append: an answer that broke off counts as paused until its step, in the same append, has failed.
    pub(crate) fn check_pauses(&self) {
        let pauses = self.mirror.pauses();
        assert!(pauses <= MAX_PAUSES, "{pauses} pauses of one answer");
    }

    /// After an answer was stored.
    pub(crate) fn check_answer(&mut self, event: &Event) {
        let EventBody::AssistantAdded { cut, .. } = &event.body else { return };
        let history = &self.mirror;
        let piece = history.entry(event.seq).expect("it is stored");
        if *cut == Some(PartialAnswerReason::Lost)
            || !piece.goes_on() && *cut != Some(PartialAnswerReason::Paused)
        {
            return;
        }
        let shown = history.view().last().map(|item| item.message.text()).unwrap_or_default();
        assert_eq!(history.whole(piece).text(), shown, "people see another answer than the model");
        let saying = self.saying.as_deref().expect("it was saying something");
        assert!(saying.starts_with(shown.trim_end()), "{shown:?} of {saying:?}");
        self.stats.whole_answers += u64::from(cut.is_none() && shown == saying);
    }
}

fn go_on(answer: &mut ModelAnswer, rest: &str, max_output: u64) {
    let says_something = |part: &Part| part.as_text().is_none_or(|text| !text.trim().is_empty());
    if !answer.parts.iter().any(says_something) {
        return;
    }
    let mut end = rest.len();
    while estimate::text_tokens(&rest[..end]) > max_output {
        end = rest.floor_char_boundary(end / 2);
    }
    answer.finish = if end < rest.len() { ModelStopReason::Length } else { ModelStopReason::Stop };
    answer.parts = if end == 0 { Vec::new() } else { vec![Part::text(&rest[..end])] };
    if let Some(usage) = &mut answer.usage {
        usage.output_tokens = estimate::text_tokens(&rest[..end]);
        usage.reasoning_tokens = 0;
    }
}
