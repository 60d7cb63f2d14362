use consort_sim::consort::Library;
use consort_sim::explore::{generate, shrink, try_setup};
fn main() {
    let args: Vec<u64> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let library = Library::built_in();
    let mut kinds: std::collections::BTreeMap<String, (u32, u64)> = Default::default();
    let t = std::time::Instant::now();
    for seed in args[0]..args[1] {
        if args.len() > 3 { eprintln!("seed {seed}"); }
        let setup = generate(seed);
        if let Some(v) = try_setup(&setup, &library) {
            let key = format!("{}: {}", v.rule, v.detail.chars().map(|c| if c.is_ascii_digit() {'#'} else {c}).collect::<String>());
            let e = kinds.entry(key).or_insert((0, seed));
            e.0 += 1;
            if args.len() > 2 && args[2] == 1 {
                let rule = v.rule;
                let small = shrink(&setup, 3000, |s| try_setup(s, &library).is_some_and(|x| x.rule == rule));
                let v = try_setup(&small, &library).unwrap();
                println!("seed {seed}: {} at {}: {}\n{}\n{}", v.rule, v.at_ns, v.detail, v.state.join("\n"), serde_json::to_string(&small).unwrap());
            }
        }
    }
    for (k, (n, s)) in &kinds { println!("{n:5} first seed {s:6}  {k}"); }
    println!("{} seeds in {:?}", args[1]-args[0], t.elapsed());
}
