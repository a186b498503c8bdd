//! What was measured: printed, and written as a table and a chart.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use tokio::time::Instant;

/// Where the results are kept.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bench");

/// What a figure is meant to be.
#[derive(Clone, Copy)]
pub(crate) enum Aim {
    AtLeast(f64),
    AtMost(f64),
    None,
}

pub(crate) struct Report {
    rounds: usize,
    rows: Vec<Row>,
    begun: Instant,
    ticks: [f64; 2],
}

struct Row {
    what: String,
    figure: f64,
    is_ratio: bool,
    aim: Aim,
    detail: String,
}

impl Report {
    pub(crate) fn new(rounds: usize) -> Self {
        Self {
            rounds,
            rows: Vec::new(),
            begun: Instant::now(),
            ticks: ticks(),
        }
    }

    /// A figure that is a ratio within this run.
    pub(crate) fn ratio(&mut self, what: &str, figure: f64, aim: Aim, detail: String) {
        let is_ratio = true;
        let what = what.to_owned();
        self.add(Row {
            what,
            figure,
            is_ratio,
            aim,
            detail,
        });
    }

    /// A count or an amount.
    pub(crate) fn figure(&mut self, what: &str, figure: f64, aim: Aim, detail: String) {
        let is_ratio = false;
        let what = what.to_owned();
        self.add(Row {
            what,
            figure,
            is_ratio,
            aim,
            detail,
        });
    }

    fn add(&mut self, row: Row) {
        println!("{}: {} {}({})", row.what, row.figure(), row.missed(), row.detail);
        self.rows.push(row);
    }

    pub(crate) fn print(&self) {
        println!("{}", self.about());
    }

    /// Writes the table and the chart.
    pub(crate) fn write(&self) {
        let folder = Path::new(FOLDER);
        fs::write(folder.join("RESULTS.md"), self.table()).unwrap();
        fs::write(folder.join("results.svg"), self.chart()).unwrap();
        println!("written: tests/bench/RESULTS.md, tests/bench/results.svg");
    }

    /// The machine, and how quiet it was.
    fn about(&self) -> String {
        let [busy, ours] = ticks();
        let spent = busy - self.ticks[0];
        let others = 100.0 * (spent - (ours - self.ticks[1])).max(0.0) / spent;
        let cores = std::thread::available_parallelism().unwrap();
        let model = fs::read_to_string("/proc/cpuinfo").unwrap();
        let model = model
            .lines()
            .find_map(|line| line.strip_prefix("model name"))
            .unwrap_or_default();
        let model = model.trim_start_matches([' ', '\t', ':']);
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        format!(
            "{} {}; {cores} processors ({model}), Linux {}; {} rounds, {:.0} min; other programs took {others:.0} % of the \
             processor time that was used.",
            env!("CARGO_PKG_NAME"),
            env!("CARGO_PKG_VERSION"),
            kernel.trim(),
            self.rounds,
            self.begun.elapsed().as_secs_f64() / 60.0
        )
    }

    fn table(&self) -> String {
        let mut text = format!(
            "# How fast it is\n\nWritten by `tests/bench/run`. Load, gateway and what it is compared with share the processors, so \
             only ratios tell something.\n\n{}\n\n![The ratios, and what they are meant to be](results.svg)\n\n\
             | what | figure | aim | measured |\n| --- | --- | --- | --- |\n",
            self.about()
        );
        for row in &self.rows {
            writeln!(
                text,
                "| {} | {} | {} | {} |",
                row.what,
                row.figure(),
                row.aim(),
                row.detail
            )
            .unwrap();
        }
        text
    }

    /// A bar for each ratio that is a share of the limit, and a line where it is meant to end.
    fn chart(&self) -> String {
        let bars: Vec<_> = self
            .rows
            .iter()
            .filter(|row| row.is_ratio && matches!(row.aim, Aim::AtLeast(_)))
            .collect();
        let height = 40 + bars.len() * 34;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 760 {height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
             <rect width=\"760\" height=\"{height}\" fill=\"#fff\"/>\n\
             <text x=\"10\" y=\"20\">Requests a second, of the limit (1.0); the line is the aim</text>\n"
        );
        for (number, row) in bars.into_iter().enumerate() {
            let (y, length) = (36 + number * 34, row.figure.min(1.2) * 280.0);
            let Aim::AtLeast(aim) = row.aim else { continue };
            let at = 400.0 + aim * 280.0;
            write!(
                svg,
                "<text x=\"10\" y=\"{}\">{}</text>\n<rect x=\"400\" y=\"{y}\" width=\"{length:.0}\" height=\"22\" fill=\"#4a7\"/>\n\
                 <line x1=\"{at:.0}\" x2=\"{at:.0}\" y1=\"{y}\" y2=\"{}\" stroke=\"#222\" stroke-width=\"2\"/>\n\
                 <text x=\"{:.0}\" y=\"{}\">{:.2}</text>\n",
                y + 16,
                row.what,
                y + 22,
                406.0 + length.max(aim * 280.0),
                y + 16,
                row.figure
            )
            .unwrap();
        }
        svg.push_str("</svg>\n");
        svg
    }
}

impl Row {
    fn figure(&self) -> String {
        if self.is_ratio {
            format!("{:.2}", self.figure)
        } else {
            format!("{:.0}", self.figure)
        }
    }

    fn aim(&self) -> String {
        match self.aim {
            Aim::AtLeast(aim) => format!("≥ {aim}"),
            Aim::AtMost(aim) => format!("≤ {aim}"),
            Aim::None => "–".to_owned(),
        }
    }

    fn missed(&self) -> &'static str {
        let is_met = match self.aim {
            Aim::AtLeast(aim) => self.figure >= aim,
            Aim::AtMost(aim) => self.figure <= aim,
            Aim::None => true,
        };
        if is_met { "" } else { "MISSED " }
    }
}

/// Processor time so far in clock ticks: of the machine, and of this process with those that it waited for (proc(5)).
fn ticks() -> [f64; 2] {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let total: Vec<f64> = stat
        .lines()
        .next()
        .unwrap()
        .split_whitespace()
        .filter_map(|n| n.parse().ok())
        .collect();
    let idle = total[3] + total[4];
    let own = fs::read_to_string("/proc/self/stat").unwrap();
    let own: Vec<_> = own.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let own = own[11..15].iter().map(|field| field.parse::<f64>().unwrap()).sum();
    [total.iter().take(8).sum::<f64>() - idle, own]
}
