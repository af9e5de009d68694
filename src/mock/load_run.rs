//! A load on the admission alone: many requests, no text. What an incident does to waits.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use serde::{Deserialize, Serialize};

use super::admission::{Admission, Ask, Verdict};
use super::error::MockError;
use super::random::{Lane, Purpose};
use super::read_json::read_json;
use super::scenario::{Count, Ms, Overload, Rate, Scenario, Share, Tier};

/// Requests that come without memory, each taking a seat for an exponential time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoadRun {
    /// All randomness comes from it.
    pub seed: Count,
    /// Pools, bucket, shedding, incidents.
    pub overload: Overload,
    /// Mean rate of both tiers together.
    pub arrivals_per_second: Rate,
    /// Which part of them is paid.
    pub paid_share: Share,
    /// Mean time on a seat.
    pub service_ms: Ms,
    /// What a request costs in the bucket.
    pub tokens: Count,
    /// How many requests in all; at most ten million.
    pub requests: Count,
    /// What comes earlier than this after the start, or after an incident, is not counted: the
    /// queues are still settling.
    pub settle_ms: Ms,
}

/// What became of the requests, for each stretch between incidents.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stretch {
    /// Since the start.
    pub from_ms: f64,
    /// The paid ones.
    pub paid: Outcome,
    /// The free ones.
    pub free: Outcome,
}

/// What became of one tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// All that came.
    pub arrived: u64,
    /// 429.
    pub refused: u64,
    /// Got a seat.
    pub served: u64,
    /// To the seat, on average.
    pub mean_wait_ms: f64,
    /// The longest.
    pub max_wait_ms: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Waiting {
    tier: Tier,
    arrived_ms: f64,
    service_ms: f64,
}

/// Most requests of a run.
const MAX_REQUESTS: u64 = 10_000_000;

struct Run {
    admission: Admission,
    waiting: BTreeMap<u64, Waiting>,
    /// Ends of services: time in bits, which order as the times do, being above 0.
    ends: BinaryHeap<Reverse<(u64, u64)>>,
    starts_ms: Vec<f64>,
    settle_ms: f64,
    stretches: Vec<Stretch>,
}

impl LoadRun {
    /// Reads a run from JSON.
    ///
    /// # Errors
    /// [`MockError::Scenario`] with the place of what is refused.
    pub fn from_json(json: &str) -> Result<Self, MockError> {
        let run: Self = read_json(json)?;
        if run.requests.get() > MAX_REQUESTS {
            return Err(MockError::Scenario {
                place: "requests".to_owned(),
                why: format!("at most {MAX_REQUESTS}"),
            });
        }
        Ok(run)
    }

    /// Runs it.
    #[must_use]
    pub fn run(&self) -> Vec<Stretch> {
        let seed = self.seed.get();
        let lane = |purpose| Lane::new(seed, purpose, 0);
        let (arrival, service) = (lane(Purpose::Arrival), lane(Purpose::Service));
        let tiers = lane(Purpose::Tier);
        let gap_ms = 1000.0 / self.arrivals_per_second.get();
        let mut run = Run::new(self);
        let mut now_ms = 0.0;
        for key in 0..self.requests.get() {
            now_ms += arrival.exponential(key) * gap_ms;
            run.end_until(now_ms);
            let is_paid = tiers.uniform(key) < self.paid_share.get();
            let waiting = Waiting {
                tier: if is_paid { Tier::Paid } else { Tier::Free },
                arrived_ms: now_ms,
                service_ms: service.exponential(key) * self.service_ms.get(),
            };
            run.arrive(now_ms, key, waiting, self.tokens.float());
        }
        run.end_until(f64::MAX);
        run.stretches
    }
}

impl Run {
    fn new(load: &LoadRun) -> Self {
        let scenario = Scenario {
            seed: load.seed,
            overload: Some(load.overload.clone()),
            ..Scenario::default()
        };
        let incidents = load.overload.incidents.iter();
        let mut starts_ms: Vec<f64> = incidents.map(|incident| incident.at_ms.get()).collect();
        starts_ms.push(0.0);
        starts_ms.sort_by(f64::total_cmp);
        let stretch = |from_ms: &f64| Stretch {
            from_ms: *from_ms,
            paid: Outcome::default(),
            free: Outcome::default(),
        };
        Self {
            admission: Admission::new(&scenario, 0.0),
            waiting: BTreeMap::new(),
            ends: BinaryHeap::new(),
            stretches: starts_ms.iter().map(stretch).collect(),
            starts_ms,
            settle_ms: load.settle_ms.get(),
        }
    }

    fn arrive(&mut self, now_ms: f64, key: u64, waiting: Waiting, tokens: f64) {
        let ask = Ask {
            key,
            tier: waiting.tier,
            tokens,
            prompt_bytes: 0,
            seat_bytes: 0,
        };
        let verdict = self.admission.ask(now_ms, ask);
        if let Some(outcome) = self.outcome(&waiting) {
            outcome.arrived += 1;
            outcome.refused += u64::from(matches!(verdict, Verdict::Refused { .. }));
        }
        if matches!(verdict, Verdict::Refused { .. }) {
            return;
        }
        self.waiting.insert(key, waiting);
        if verdict == Verdict::Seated {
            self.serve(now_ms, key);
        }
    }

    fn serve(&mut self, now_ms: f64, key: u64) {
        let Some(waiting) = self.waiting.remove(&key) else {
            return;
        };
        let wait_ms = now_ms - waiting.arrived_ms;
        if let Some(outcome) = self.outcome(&waiting) {
            outcome.served += 1;
            #[expect(clippy::cast_precision_loss, reason = "at most ten million")]
            let served = outcome.served as f64;
            outcome.mean_wait_ms += (wait_ms - outcome.mean_wait_ms) / served;
            outcome.max_wait_ms = outcome.max_wait_ms.max(wait_ms);
        }
        let end_ms = now_ms + waiting.service_ms;
        self.ends.push(Reverse((end_ms.to_bits(), key)));
    }

    /// Lets services end, in order of time, and seats who waits.
    fn end_until(&mut self, now_ms: f64) {
        while let Some(Reverse((bits, key))) = self.ends.peek().copied()
            && f64::from_bits(bits) <= now_ms
        {
            self.ends.pop();
            let end_ms = f64::from_bits(bits);
            self.admission.advance(end_ms);
            self.admission.leave(end_ms, key, 0.0);
            while let Some(next) = self.admission.seat_waiting() {
                self.serve(end_ms, next);
            }
        }
    }

    /// Where `waiting` is counted: nowhere while queues settle.
    fn outcome(&mut self, waiting: &Waiting) -> Option<&mut Outcome> {
        let at = self
            .starts_ms
            .iter()
            .rposition(|start| *start <= waiting.arrived_ms)?;
        if waiting.arrived_ms < self.starts_ms[at] + self.settle_ms {
            return None;
        }
        let stretch = self.stretches.get_mut(at)?;
        Some(match waiting.tier {
            Tier::Paid => &mut stretch.paid,
            Tier::Free => &mut stretch.free,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mock::formulas::queue_wait_ms;

    /// Ten replicas at 49.7 ms and load 0.661; a third of the way in, three are lost. Each
    /// replica has its own queue, so what is left serves as fast as before but gets more.
    fn incident(paid_share: f64, shed: &str) -> Vec<Stretch> {
        let rate = 0.661 / 49.7 * 1000.0 * 10.0;
        let json = format!(
            r#"{{"seed":7,"arrivalsPerSecond":{rate},"paidShare":{paid_share},
                "serviceMs":49.7,"tokens":1,"requests":1200000,"settleMs":60000,
                "overload":{{"pools":[{{"name":"all","seats":1,"replicas":10}}],
                    "waiting":{{"limit":100000}},{shed}
                    "incidents":[{{"atMs":3000000,"capacity":0.7}}]}}}}"#
        );
        LoadRun::from_json(&json).expect("it is valid").run()
    }

    #[test]
    fn losing_30_percent_of_capacity_takes_the_wait_from_97_ms_to_about_850() {
        let [before, after] = &incident(1.0, "")[..] else {
            panic!("two stretches");
        };
        let (before, after) = (before.paid, after.paid);
        assert!((before.mean_wait_ms - 97.0).abs() < 4.0, "{before:?}");
        let predicted = queue_wait_ms(49.7, 0.661 / 0.7);
        assert!((after.mean_wait_ms - predicted).abs() < 85.0, "{after:?}");
        assert_eq!((before.refused, after.refused), (0, 0));
    }

    #[test]
    fn the_free_tier_is_shed_first_and_the_paid_wait_stays_low() {
        let shed = r#""shed":{"targetLoad":0.75,"serviceMs":49.7},"#;
        let [before, after] = &incident(0.6, shed)[..] else {
            panic!("two stretches");
        };
        // At 0.661 hardly anyone is: only where arrivals happen to come close together.
        assert!(before.free.refused * 20 < before.free.arrived, "{before:?}");
        assert_eq!((before.paid.refused, after.paid.refused), (0, 0));
        // 0.944 down to 0.75 is a fifth of all, so half of the free ones.
        #[expect(clippy::cast_precision_loss, reason = "a count of a test")]
        let share = after.free.refused as f64 / after.free.arrived as f64;
        assert!((share - 0.514).abs() < 0.03, "{share}");
        // Paid goes before free, so it waits less than at that load without tiers.
        assert!(
            after.paid.mean_wait_ms < queue_wait_ms(49.7, 0.75),
            "{after:?}"
        );
    }

    #[test]
    fn the_same_seed_gives_the_same_run() {
        let json = r#"{"seed":1,"arrivalsPerSecond":100,"paidShare":0.5,"serviceMs":9,
            "tokens":1,"requests":5000,"settleMs":0,
            "overload":{"pools":[{"name":"all","seats":1}]}}"#;
        let run = |json: &str| LoadRun::from_json(json).expect("it is valid").run();
        assert_eq!(run(json), run(json));
        assert_ne!(run(json), run(&json.replace("\"seed\":1", "\"seed\":2")));
        let huge = json.replace("5000", "10000001");
        assert!(LoadRun::from_json(&huge).is_err());
    }
}
