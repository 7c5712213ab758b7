//! A support agent in a long conversation.

use serde_json::{Value, json};

use super::SyntheticLogBuilder;
use super::rng::SeededRng;

const GOODS: [&str; 12] = [
    "desk lamp",
    "garden hose",
    "hiking boots",
    "kettle",
    "keyboard",
    "monitor",
    "office chair",
    "rain jacket",
    "rucksack",
    "tent",
    "travel adapter",
    "wool blanket",
];

const WISHES: [&str; 6] = [
    "I want my money back for it",
    "where is it, it should be here by now",
    "please send it to my other address",
    "one part is missing",
    "can I swap it for another colour",
    "do not cancel it, I only asked",
];

/// An order looked up by the agent.
#[derive(Clone)]
struct CustomerOrder {
    id: String,
    customer: String,
    amount: String,
    parcel: String,
    good: &'static str,
}

pub(super) fn write(script: &mut SyntheticLogBuilder, turns: usize) {
    let mut orders: Vec<CustomerOrder> = Vec::new();
    let mut cases: Vec<String> = Vec::new();
    for turn in 0..turns {
        script.wait(10, 420);
        // The first customers are new, so that there are some orders to come back to.
        let again = turn > 3 && script.rng.chance(45);
        let order = if again { script.rng.pick_earlier(&orders).clone() } else { order(&mut script.rng) };
        let wish = *script.rng.pick(&WISHES);
        if again {
            // The customer does not repeat the order's number, so the agent has to know it.
            script.typed(format!("Once more about the {} of {}: {wish}.", order.good, order.customer));
        } else {
            script.typed(format!(
                "Hello, {} here, order {} ({}): {wish}.",
                order.customer, order.id, order.good
            ));
        }
        look_up(script, &order);
        settle(script, &order, &mut cases);
        orders.push(order);
    }
}

fn order(rng: &mut SeededRng) -> CustomerOrder {
    let code: String = (0..3).map(|_| letter(rng)).collect();
    CustomerOrder {
        id: format!("{code}{}", rng.between(10_000, 99_999)),
        customer: format!("customer_{}", rng.between(1_000, 9_999)),
        amount: format!("{}.{:02}", rng.between(12, 900), rng.below(100)),
        parcel: format!("PX-{}-{}", rng.between(100_000, 999_999), letter(rng)),
        good: rng.pick::<&str>(&GOODS),
    }
}

fn letter(rng: &mut SeededRng) -> char {
    // Without I and O, which look like digits.
    char::from(*rng.pick(b"ABCDEFGHJKLMNPQRSTUVWXYZ"))
}

fn look_up(script: &mut SyntheticLogBuilder, order: &CustomerOrder) {
    let arguments = json!({ "orderId": order.id, "customer": order.customer });
    let answer = record(&mut script.rng, order);
    script.call("Let me look.".to_owned(), "get_order", &arguments, answer.to_string(), true);
}

fn record(rng: &mut SeededRng, order: &CustomerOrder) -> Value {
    let events: Vec<Value> = (0..rng.magnitude(2, 30))
        .map(|at| json!({ "step": at, "place": format!("hub_{}", rng.between(10, 99)), "minutes": rng.between(1, 4_000) }))
        .collect();
    json!({
        "orderId": order.id, "customer": order.customer, "good": order.good, "amount": order.amount,
        "parcel": order.parcel, "tracking": events,
        "terms": "Returns within 30 days; never refund shipping without a parcel number; ask before cancelling.",
    })
}

fn settle(script: &mut SyntheticLogBuilder, order: &CustomerOrder, cases: &mut Vec<String>) {
    let case = format!("CASE-{}", script.rng.between(10_000, 99_999));
    let arguments = json!({ "orderId": order.id, "amount": order.amount, "parcel": order.parcel });
    script.call("I open a case.".to_owned(), "open_case", &arguments, format!("{case} opened"), true);
    let alone = cases.is_empty() || script.rng.chance(70);
    let said = if alone {
        format!("I have opened {case} for order {}; the parcel is {}.", order.id, order.parcel)
    } else {
        let before = script.rng.pick_earlier(cases).clone();
        format!(
            "I have opened {case}. It goes with {before}, which is still open. The amount is {}.",
            order.amount
        )
    };
    script.say(said);
    cases.push(case);
}
