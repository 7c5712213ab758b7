//! Figures as people read them.

/// The placeholder for a missing figure.
pub(super) const NONE: &str = "–";

/// Formats tokens: `52.1K` for 52,100.
pub(super) fn tokens(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        // From 999,950 on, rounding would give 1000.0K.
        1_000..999_950 => tenths(number, 1_000, "K"),
        _ => tenths(number, 1_000_000, "M"),
    }
}

fn tenths(number: u64, unit: u64, name: &str) -> String {
    // In whole numbers, since a float would round 0.05 sometimes up and sometimes down.
    let tenths = (number.saturating_mul(10).saturating_add(unit / 2)) / unit;
    format!("{}.{}{name}", tenths / 10, tenths % 10)
}

/// Formats a cost in a column: as many decimals for all.
pub(super) fn cost(amount: f64) -> String {
    format!("{amount:.4}")
}

/// Formats a cost in a sentence: two figures at least.
pub(super) fn cost_in_sentence(amount: f64) -> String {
    match amount {
        10.0.. => format!("{amount:.1}"),
        0.1.. => format!("{amount:.2}"),
        0.01.. => format!("{amount:.3}"),
        _ => format!("{amount:.5}"),
    }
}

/// Formats a share as a percentage without its sign: `97.3` for 0.973.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

/// Formats a share in a sentence: `97.3 %`.
pub(super) fn percent_in_sentence(share: f64) -> String {
    format!("{} %", percent(share))
}

/// Formats milliseconds as seconds with one decimal.
pub(super) fn seconds(ms: f64) -> String {
    format!("{:.1}", ms / 1_000.0)
}

/// Formats a median of counts: without decimals if whole.
pub(super) fn count(number: f64) -> String {
    if number.fract() == 0.0 { format!("{number:.0}") } else { format!("{number:.1}") }
}

/// Formats a count: `1 session`, `41 sessions`.
pub(super) fn counted(number: usize, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

/// Formats a figure, or returns [`NONE`].
pub(super) fn or_none(figure: Option<f64>, show: impl Fn(f64) -> String) -> String {
    figure.map_or_else(|| NONE.to_owned(), show)
}

/// Joins items: `a, b and c`.
pub(super) fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Returns harmless text: control characters and marks that turn the reading direction are removed, line
/// breaks become blanks.
pub(super) fn visible(text: &str) -> String {
    let turns =
        // Such marks could make a name from a recording show as another text than it is.
        |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    // Line breaks become blanks first, because the filter for control characters would join the words.
    let shown = text.chars().map(|c| if matches!(c, '\n' | '\r' | '\t') { ' ' } else { c });
    shown.filter(|c| !c.is_control() && !turns(*c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short_and_keep_their_columns() {
        let all = [0, 999, 1_000, 52_149, 999_949, 999_950, 1_250_000].map(tokens);
        assert_eq!(all, ["0", "999", "1.0K", "52.1K", "999.9K", "1.0M", "1.3M"]);
        assert_eq!(
            [12.345, 0.5, 0.0123, 0.000_456].map(cost_in_sentence),
            ["12.3", "0.50", "0.012", "0.00046"]
        );
        assert_eq!((percent(0.973), percent_in_sentence(1.0)), ("97.3".to_owned(), "100.0 %".to_owned()));
        assert_eq!([2.0, 2.5].map(count), ["2", "2.5"]);
        assert_eq!((counted(1, "session"), counted(0, "session")), ("1 session".into(), "0 sessions".into()));
        assert_eq!(or_none(None, percent), "–");
        let items = ["a", "b", "c"].map(str::to_owned);
        assert_eq!([listed(&items), listed(&items[..1]), listed(&[])], ["a, b and c", "a", ""]);
    }

    #[test]
    fn nothing_that_drives_a_terminal_gets_through() {
        assert_eq!(visible("a\u{1b}[31m\nb\u{202e}c\u{7}"), "a[31m bc");
    }
}
