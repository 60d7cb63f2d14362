use consort_sim::consort::Library;
use consort_sim::explore::{explore, generate, try_setup, ExploreOptions};
fn main() {
    if std::env::args().nth(1).as_deref() == Some("trace") {
        let text = std::fs::read_to_string(std::env::args().nth(2).unwrap()).unwrap();
        let line = text.lines().find(|l| l.starts_with("{\"machine")).unwrap();
        let setup: consort_sim::setup::Setup = serde_json::from_str(line).unwrap();
        let o = consort_sim::run(
            &setup,
            consort_sim::consort(),
            &mut |e: &consort_sim::trace::Event| println!("{} cpu{} {:?}", e.at_ns, e.cpu, e.what),
        )
        .unwrap();
        println!("{:?}", o.violation.map(|v| v.detail));
        return;
    }
    let args: Vec<u64> = std::env::args()
        .skip(1)
        .map(|a| a.parse().unwrap())
        .collect();
    let library = Library::built_in();
    let t = std::time::Instant::now();
    if args.len() > 2 {
        let options = ExploreOptions {
            first_seed: args[0],
            seeds: args[1] - args[0],
            jobs: args[2],
            shrink_runs_max: 1500,
            ..Default::default()
        };
        let result = explore(&options, &library, &mut |_| {}).unwrap();
        if let Some(f) = result.failure {
            println!(
                "seed {} {:?} after {} in {:?}",
                f.seed,
                f.verdict,
                result.done,
                t.elapsed()
            );
            if let Some(v) = f.violation {
                println!(
                    "{} at {}: {}\n{}",
                    v.rule,
                    v.at_ns,
                    v.detail,
                    v.state.join("\n")
                );
            }
            println!("{}", serde_json::to_string(&f.setup).unwrap());
        } else {
            println!("{} done in {:?}", result.done, t.elapsed());
        }
        return;
    }
    let mut kinds: std::collections::BTreeMap<String, (u32, u64)> = Default::default();
    for seed in args[0]..args[1] {
        let setup = generate(seed);
        if let Some(v) = try_setup(&setup, &library) {
            let key = format!(
                "{}: {}",
                v.rule,
                v.detail
                    .chars()
                    .map(|c| if c.is_ascii_digit() { '#' } else { c })
                    .collect::<String>()
            );
            let e = kinds.entry(key).or_insert((0, seed));
            e.0 += 1;
        }
    }
    for (k, (n, s)) in &kinds {
        println!("{n:5} first seed {s:6}  {k}");
    }
    println!("{} seeds in {:?}", args[1] - args[0], t.elapsed());
}
