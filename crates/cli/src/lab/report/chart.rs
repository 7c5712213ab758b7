//! Charts as SVG: axes with units, a title and a description for screen readers, marks and dashes
//! besides colour. Colours and type are the page's style.

pub(super) mod context;
pub(super) mod scatter;

use super::markup::{Attributes, MarkupWriter};

/// The scale from figures to coordinates on the page.
#[derive(Clone, Copy, Debug)]
struct ChartScale {
    domain: (f64, f64),
    range: (f64, f64),
}

impl ChartScale {
    fn at(&self, value: f64) -> f64 {
        let (low, high) = self.domain;
        // An empty domain would divide by zero.
        let part = if high > low { (value - low) / (high - low) } else { 0.0 };
        self.range.0 + part * (self.range.1 - self.range.0)
    }
}

/// Returns round steps from below `low` to above `high`, about `wanted` of them.
fn ticks(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let span = (high - low).max(f64::MIN_POSITIVE);
    let raw = span / wanted.max(1) as f64;
    let unit = 10f64.powf(raw.log10().floor());
    let step =
        [1.0, 2.0, 2.5, 5.0, 10.0].map(|it| it * unit).into_iter().find(|it| *it >= raw).unwrap_or(raw);
    // The small offsets keep a rounding error from adding a step at either end.
    let (first, last) = ((low / step + 1e-9).floor() as i64, (high / step - 1e-9).ceil() as i64);
    (first..=last).map(|index| index as f64 * step).collect()
}

/// Formats a coordinate: a tenth of a unit is finer than can be seen.
fn place(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Appends a drawing with a name and a description.
fn drawing(
    out: &mut MarkupWriter,
    (id, class): (&str, &'static str),
    (width, height): (f64, f64),
    (title, description): (&str, &str),
    inside: impl FnOnce(&mut MarkupWriter),
) {
    let (title_id, description_id) = (format!("{id}-t"), format!("{id}-d"));
    let view = format!("0 0 {} {}", place(width), place(height));
    let named = format!("{title_id} {description_id}");
    let attributes: Attributes<'_> =
        &[("class", class), ("viewBox", &view), ("role", "img"), ("aria-labelledby", &named)];
    out.element("svg", attributes, |svg| {
        svg.leaf("title", &[("id", &title_id)], title);
        svg.leaf("desc", &[("id", &description_id)], description);
        inside(svg);
    });
}

fn line(out: &mut MarkupWriter, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
    let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(place);
    out.void("line", &[("class", class), ("x1", &x1), ("y1", &y1), ("x2", &x2), ("y2", &y2)]);
}

fn label(out: &mut MarkupWriter, class: &str, (x, y): (f64, f64), text: &str) {
    let [x, y] = [x, y].map(place);
    out.leaf("text", &[("class", class), ("x", &x), ("y", &y)], text);
}

/// Appends a path through points.
fn path(out: &mut MarkupWriter, class: &str, points: &[(f64, f64)]) {
    let mut course = String::new();
    for (index, (x, y)) in points.iter().enumerate() {
        course.push(if index == 0 { 'M' } else { 'L' });
        course.push_str(&place(*x));
        course.push(' ');
        course.push_str(&place(*y));
    }
    out.void("path", &[("class", class), ("d", &course)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_hold_what_is_between() {
        assert_eq!(ticks(0.0, 162_163.0, 4), [0.0, 50_000.0, 100_000.0, 150_000.0, 200_000.0]);
        assert_eq!(ticks(0.0, 1.0, 5).len(), 6);
        let few = ticks(0.93, 1.0, 4);
        assert!(few[0] <= 0.93 && few.last().is_some_and(|it| (it - 1.0).abs() < 1e-9), "{few:?}");
    }

    #[test]
    fn a_scale_maps_its_ends_and_never_divides_by_nothing() {
        let scale = ChartScale { domain: (10.0, 20.0), range: (100.0, 0.0) };
        assert_eq!([10.0, 15.0, 20.0].map(|it| scale.at(it)), [100.0, 50.0, 0.0]);
        let flat = ChartScale { domain: (5.0, 5.0), range: (0.0, 9.0) };
        assert_eq!(flat.at(5.0), 0.0);
        assert_eq!([1.0, 1.26].map(place), ["1", "1.3"]);
    }
}
