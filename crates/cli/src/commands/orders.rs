//! `longhaul orders`: the standing orders in every view, and the commands `/pin` and
//! `/unpin`.

use longhaul::session::Session;
use longhaul_core::ids::OrderId;
use longhaul_core::orders::{OrderSource, OrderState, StandingOrder, one_line};
use serde_json::{Value, json};

use crate::args::OrdersArgs;
use crate::environment::CliEnvironment;
use crate::failure::{CommandError, DONE, Outcome};
use crate::term::out;
use crate::term::text::visible;

use super::reading;

pub(crate) async fn run(args: OrdersArgs, place: &CliEnvironment) -> Outcome {
    let (runtime, record) = reading::session(place, &args.session).await?;
    let run = runtime.read_run(&record.id).await;
    // Closed before the result is looked at, so that the store is closed on errors too.
    runtime.close().await;
    let orders = run?.history().all_orders().all().to_vec();
    if args.json {
        let shown = orders.iter().filter(|order| args.all || order.is_active());
        let shown: Vec<Value> = shown.map(as_json).collect();
        out::print_line(&serde_json::to_string_pretty(&shown)?)?;
        return Ok(DONE);
    }
    let text = listed(&orders);
    let ended = if args.all { ended(&orders) } else { String::new() };
    out::rows(&format!("{text}{ended}{TYPED_RULES}"))?;
    Ok(DONE)
}

/// The place of the rules that are no pinned orders: a person who typed one looks for it in the list.
const TYPED_RULES: &str =
    "rules in your own messages are not listed here; every shortened view quotes them\n";

/// A change of the standing orders, as typed behind a slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::commands) enum OrderCommand {
    /// Lists the active orders with their numbers.
    List,
    /// Adds an order. A text with an order's number in front changes the order.
    Pin(String),
    /// Removes the order of a number.
    Unpin(usize),
    /// Removes the order of a name, such as `o1`. The model sees orders under these names.
    UnpinNamed(String),
}

impl OrderCommand {
    /// Reads the text behind `/pin`.
    pub(in crate::commands) fn of_pin(argument: Option<String>) -> Self {
        argument.map_or(Self::List, Self::Pin)
    }

    /// Reads the text behind `/unpin`.
    ///
    /// # Errors
    /// The usage of the command.
    pub(in crate::commands) fn of_unpin(argument: Option<&str>) -> Result<Self, String> {
        let usage =
            || "/unpin takes the number or the name of an order, such as 1 or o1; /pin lists them".to_owned();
        let named = argument.ok_or_else(usage)?;
        if let Ok(number) = named.parse() {
            return Ok(Self::Unpin(number));
        }
        let is_name = named.strip_prefix('o').is_some_and(|digits| digits.parse::<u64>().is_ok());
        if is_name { Ok(Self::UnpinNamed(named.to_owned())) } else { Err(usage()) }
    }

    /// Performs the command, and describes the result.
    ///
    /// # Errors
    /// The reason for the command's failure.
    pub(in crate::commands) async fn perform(self, session: &Session) -> Outcome<String> {
        let orders = session.orders().await?;
        match self {
            Self::List => Ok(listed(&orders) + TYPED_RULES),
            Self::Unpin(number) => {
                let Some(order) = numbered(&orders, number) else {
                    let count = active(&orders).count();
                    return Err(CommandError::usage(format!(
                        "there is no standing order {number}; there are {count}"
                    )));
                };
                let gone = session.remove_order(order.id.clone()).await?;
                Ok(format!("removed: {}\n", visible(&gone.line())))
            }
            Self::UnpinNamed(name) => {
                let Some(order) = active(&orders).find(|order| order.id.as_str() == name) else {
                    return Err(CommandError::usage(format!(
                        "there is no standing order {name}; /pin lists them"
                    )));
                };
                let gone = session.remove_order(order.id.clone()).await?;
                Ok(format!("removed: {}\n", visible(&gone.line())))
            }
            Self::Pin(text) => pin(session, &orders, &text).await,
        }
    }
}

/// Pins an order. An unused number at the start begins the text of a new order: `/pin 2 spaces, never tabs`.
async fn pin(session: &Session, orders: &[StandingOrder], text: &str) -> Outcome<String> {
    if let Some((id, text)) = edited(orders, text) {
        let before = orders.iter().find(|order| order.id == id).map(StandingOrder::line).unwrap_or_default();
        let order = session.edit_order(id, text).await?;
        return Ok(format!("changed: {}\n     now: {}\n", visible(&before), visible(&order.line())));
    }
    let pinned = session.pin_order(text, None).await?;
    let verb = if pinned.is_new { "pinned" } else { "pinned already" };
    Ok(format!("{verb}: {}\n", visible(&pinned.order.line())))
}

fn edited<'t>(orders: &[StandingOrder], text: &'t str) -> Option<(OrderId, &'t str)> {
    let (number, rest) = text.split_once(char::is_whitespace)?;
    // A number of no order belongs to the text of a new one, as in `2 spaces, never tabs`.
    let order = numbered(orders, number.parse().ok()?)?;
    Some((order.id.clone(), rest.trim()))
}

fn active(orders: &[StandingOrder]) -> impl Iterator<Item = &StandingOrder> {
    orders.iter().filter(|order| order.is_active())
}

/// Returns the active order of a number, from 1.
fn numbered(orders: &[StandingOrder], number: usize) -> Option<&StandingOrder> {
    active(orders).nth(number.checked_sub(1)?)
}

/// Lists the active orders, one a line, with their numbers.
fn listed(orders: &[StandingOrder]) -> String {
    let lines = active(orders).zip(1..).map(|(order, number): (_, usize)| {
        format!("{number:>3}  {}  {}{}\n", order.id, visible(&order.line()), source(order.source))
    });
    let lines: String = lines.collect();
    if lines.is_empty() { "no standing orders are pinned\n".to_owned() } else { lines }
}

/// Returns an order as JSON, with the names of the API.
fn as_json(order: &StandingOrder) -> Value {
    json!({
        "id": order.id, "text": order.text, "source": order.source, "seq": order.at,
        "state": order.state.as_str(),
    })
}

/// Lists the orders no longer in force.
fn ended(orders: &[StandingOrder]) -> String {
    let lines = orders.iter().filter_map(|order| {
        let why = match &order.state {
            OrderState::Active => return None,
            OrderState::Superseded { by } => {
                let by = orders.iter().find(|other| other.id == *by).map(|other| one_line(&other.text));
                format!("replaced by: {}", by.unwrap_or_default())
            }
            other => other.as_str().to_owned(),
        };
        Some(format!("  -  {} ({})\n", visible(&order.line()), visible(&why)))
    });
    lines.collect()
}

fn source(source: OrderSource) -> &'static str {
    match source {
        OrderSource::Model => "  (the model)",
        OrderSource::Summary => "  (a summary)",
        OrderSource::Detected => "  (found in what you said)",
        _ => "",
    }
}
