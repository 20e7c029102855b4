package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// manuals are topics of agentx help that print files of the documentation: make docs writes these.
var manuals = map[string]func(root *cobra.Command) string{"manual": manualPage, "llms.txt": llmsText, "settings.md": settingsPage, "metrics.md": metricsPage}

// settingsPage returns doc/settings.md: the settings of a replay and of a simulation.
func settingsPage(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# Settings\n\nThis page lists all settings of `agentx replay` and `agentx simulate`. Each row is a flag `--NAME`, a variable `AGENTX_NAME`, a key of `--config` and a name of `--set`:\n\n" +
		"    agentx help settings max-gap\n    agentx replay --preset aiperf-0.13 --print-config\n\nWhere a preset has another default, it is named. `-` is off, or none. [spec/replay.md](spec/replay.md) 0.3 and [spec/simulate.md](spec/simulate.md) 0.3 have the rules.\n\n")
	replay, _, _ := root.Find([]string{"replay"})
	simulate, _, _ := root.Find([]string{"simulate"})
	fmt.Fprintf(&b, "## agentx replay\n%s\n## agentx simulate\n\nIt has settings of a replay as well, such as `speed`: agentx help simulate lists all.\n%s\n",
		settings.Reference(replay.Flags(), pflag.NewFlagSet("", 0)), settings.Reference(simulate.Flags(), replay.Flags()))
	return strings.TrimSuffix(b.String(), "\n")
}

// metricsPage returns doc/metrics.md: the metrics that service levels, gates and comparisons name.
func metricsPage(*cobra.Command) string {
	var b strings.Builder
	b.WriteString("# Metrics\n\nThis page lists the figures that service levels, gates, `--until` and comparisons name:\n\n    agentx report results --gate 'ttft.p95<2s' --gate 'error-rate<1%'\n\n" +
		"A metric of each request has the statistics `.mean`, `.p50`, `.p75`, `.p90`, `.p95`, `.p99` and `.max`. [spec/replay.md](spec/replay/08-metrics.md) 8 and [spec/results.md](spec/results.md) 3 define them; the latter has all other keys.\n\n" +
		"| name | what it is | unit | of | better | in files of AIPerf |\n|---|---|---|---|---|---|\n")
	for _, m := range measure.MetricList {
		of, better := "each request", "lower"
		if !m.OfEach {
			of = "the run"
		}
		if m.Unit == slo.Tokens {
			better = "-"
		} else if m.MoreIsBetter {
			better = "higher"
		}
		what := m.Title
		if m.Live != "" {
			what += ": " + strings.ToLower(m.Live[:1]) + strings.TrimSuffix(m.Live[1:], ".")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", m.Name, what, cmp.Or(string(m.Unit), "share"), of, better, cmp.Or(m.Tag, "-"))
	}
	return b.String()
}

// manualPage returns doc/agentx.1: the help of all verbs as a page for man.
func manualPage(root *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH AGENTX 1\n.SH NAME\nagentx \\- %s\n.SH SYNOPSIS\n", roff(root.Short))
	verbs := verbsOf(root)
	for _, cmd := range verbs {
		fmt.Fprintf(&b, ".B %s\n.br\n", roff(cmd.UseLine()))
	}
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s", paragraphs(root.Long))
	fmt.Fprintf(&b, ".SH OPTIONS OF EVERY VERB\n%s", optionsOf(root.PersistentFlags()))
	for _, cmd := range verbs {
		fmt.Fprintf(&b, ".SH %s\n", strings.ToUpper(roff(strings.TrimPrefix(cmd.CommandPath(), "agentx "))))
		b.WriteString(paragraphs(cmp.Or(cmd.Long, cmd.Short+".")))
		if cmd.Example != "" {
			b.WriteString(".SS Examples\n" + paragraphs(cmd.Example))
		}
		if options := optionsOf(cmd.LocalNonPersistentFlags()); options != "" {
			b.WriteString(".SS Options\n" + options)
		}
	}
	b.WriteString(".SH EXIT STATUS\n" + paragraphs(exitHelp[strings.Index(exitHelp, "    0"):]))
	b.WriteString(".SH ENVIRONMENT\n" + paragraphs("AGENTX_FLAG sets --flag, with _ for -. OTEL_EXPORTER_OTLP_HEADERS is that of OpenTelemetry: headers for the collector of --otlp."))
	return b.String()
}

// verbsOf lists the verbs below a command, each before its own verbs.
func verbsOf(cmd *cobra.Command) (list []*cobra.Command) {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && c.Name() != "completion" && c.Name() != "help" {
			list = append(append(list, c), verbsOf(c)...)
		}
	}
	return list
}

// optionsOf writes flags with their help for man.
func optionsOf(flags *pflag.FlagSet) string {
	var b strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" {
			usage += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", strings.TrimSpace(roff("--"+f.Name+" "+value)), roff(usage))
	})
	return b.String()
}

// paragraphs writes a text of the help for man: indented blocks stay as they are, other lines are filled.
func paragraphs(text string) string {
	var b strings.Builder
	for block := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		if strings.HasPrefix(block, " ") {
			fmt.Fprintf(&b, ".PP\n.nf\n%s\n.fi\n", roff(block))
			continue
		}
		fmt.Fprintf(&b, ".PP\n%s\n", roff(block))
	}
	return b.String()
}

// roff escapes a text for man.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for k, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[k] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

// documents are the documents that llms.txt names, with the topics of each.
var documents = [][2]string{
	{"README.md", "what agentx is for, installation, the first run"},
	{"doc/start.md", "the first run, step by step; words"},
	{"doc/replay.md", "recipes of a replay: load, warmup, servers, what is sent, results"},
	{"doc/report.md", "pages, comparisons, gates in a pipeline, capacity, OpenTelemetry, Grafana, MLflow, W&B"},
	{"doc/settings.md", "every setting of a replay and of a simulation, with its defaults"},
	{"doc/metrics.md", "every metric that service levels, gates and comparisons name"},
	{"doc/traces.md", "formats of recordings, and how to write one"},
	{"doc/tables.md", "the tables of a cache in pyarrow, pandas, polars, DuckDB"},
	{"doc/aiperf.md", "command lines of AIPerf on agentx"},
	{"doc/harness.md", "command lines of agentx-harness and of InferenceX on agentx"},
	{"doc/simulate.md", "simulated engines and fleets"},
	{"doc/capture.md", "recording live agents"},
	{"doc/clusters.md", "one cache for many machines, one load from many; Slurm, Kubernetes, Ray"},
	{"doc/scale.md", "what a core and a lane cost, when to add parts, 100,000 lanes"},
	{"doc/spec/cli.md", "verbs, machine-readable output, exit statuses"},
	{"doc/spec/results.md", "files and fields of the results, definitions of all metrics"},
}

// llmsText returns llms.txt, which tells a language model how to use agentx.
func llmsText(root *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# agentx\n\n> %s.\n\n", root.Short)
	what, _, _ := strings.Cut(root.Long, "\n\n")
	fmt.Fprintf(&b, "%s\n\nInstall: `pip install agentx-replay`, which brings the program `agentx` and the Python module `agentx_replay`. Results go to files; exit\nstatuses: 0 done, 1 failed, 2 wrong command line, 3 the verdict is no. Every verb takes `--quiet`; most take `--json`. `agentx help VERB` explains a verb.\n\n## Documents\n\n", what)
	for _, d := range documents {
		fmt.Fprintf(&b, "- [%s](%s): %s\n", d[0], d[0], d[1])
	}
	b.WriteString("\n## Verbs\n\n")
	for _, cmd := range verbsOf(root) {
		fmt.Fprintf(&b, "- `%s`: %s\n", cmd.UseLine(), cmd.Short)
	}
	replay, _, _ := root.Find([]string{"replay"})
	b.WriteString("\n## Flags that most replays need\n\n")
	for _, name := range shortFlags {
		value, usage := pflag.UnquoteUsage(replay.Flags().Lookup(name))
		fmt.Fprintf(&b, "- `%s`: %s\n", strings.TrimSpace("--"+name+" "+value), usage)
	}
	fmt.Fprintf(&b, "\n## Examples\n\n%s\n", strings.ReplaceAll("\n"+replay.Example, "\n  ", "\n    ")[1:])
	return b.String()
}
