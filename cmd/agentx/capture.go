package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentx/agentx/cmd/internal/capture"
	"github.com/agentx/agentx/cmd/internal/capture/carry"
	"github.com/agentx/agentx/cmd/internal/capture/finish"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/hfsource/hub"
	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/internal/guard"
	"github.com/agentx/agentx/internal/suggest"
	"github.com/agentx/agentx/internal/terminal"
	"github.com/agentx/agentx/internal/tokensource"
)

// captureFlags say what is captured, and how.
type captureFlags struct {
	set                      *settings.Set
	listen, admin, cert, key string
	tokenizer                string
	asJSON                   bool
	drawn                    bool // AdminToken was drawn, so the user must be told
	options                  capture.Options
	problems
}

func newCapture() *cobra.Command {
	f := captureFlags{options: capture.Options{Limits: capture.DefaultLimits}}
	cmd := &cobra.Command{
		Use:   "capture --upstream URL --out DIR",
		Short: "Record live agents: a proxy that writes what they do as traces, without what they say",
		Long: `Stand between agents and an LLM API, pass everything on unchanged and at once, and write each session
as a trace that agentx convert takes: token counts, numbers of blocks, times. No text, header value, id or
digest reaches the disk. It runs until a signal, and may run for weeks.

  agentx capture --upstream https://api.anthropic.com --out captured --listen 127.0.0.1:8080
  ANTHROPIC_BASE_URL=http://127.0.0.1:8080 claude
  agentx convert captured

Claude Code, Codex, OpenCode and agents of Dynamo name their sessions in headers. Others name them in the
base URL: http://HOST/s/NAME/v1 for openai, http://HOST/s/NAME for anthropic. A request without such a name
belongs to the session of its client, which address and credential tell apart.

What contributors should know: sizes, rhythm, models and the shape of tool loops stay visible, and whoever
has a transcript can recognize it by its sizes. --grid, --max-gap and --mask make that harder.

The first lines on standard output are "listening URL" and "admin URL". The admin listener answers
GET /health, GET /metrics (Prometheus), GET and POST /sessions, GET and DELETE /sessions/ID; POST and
DELETE with the header X-Agentx-Admin: 1. If other machines can reach it, or AGENTX_ADMIN_TOKEN is set, it
requires a token: the one of AGENTX_ADMIN_TOKEN, else one that it draws and prints.

DIR gets traces, a note about each, and journals of open sessions. After a crash
"agentx capture finish DIR", or the next capture, makes traces of the journals.

--limit NAME=VALUE: ` + strings.Join(limitNames(), ", ") + `.`,
		Example: `  agentx capture --upstream openai=https://api.openai.com --upstream anthropic=https://api.anthropic.com --out captured
  agentx capture --upstream http://127.0.0.1:8000 --out captured --record opted --idle 30m --mask models,tails
  agentx capture check captured/traces --trie`,
		Args: refuseArgs,
		RunE: f.run,
	}
	f.register(cmd)
	cmd.AddCommand(newCaptureFinish(), newCaptureCheck())
	return cmd
}

// register adds the flags to a command.
func (f *captureFlags) register(cmd *cobra.Command) {
	flags, o := cmd.Flags(), &f.options
	flags.StringVar(&f.cert, "tls-cert", "", "certificate of --listen, a PEM file; needs --tls-key")
	flags.StringVar(&f.key, "tls-key", "", "key of --tls-cert, a PEM file")
	flags.StringVar(&o.Dir, "out", "", "directory of the capture; made where it is missing")
	flags.IntVar(&o.BlockSize, "block-size", 64, "tokens of a block")
	flags.StringVar(&o.SessionHeader, "session-header", "", "header that names the session of a request")
	durationVar(flags, &o.Idle, "idle", 6*time.Hour, "finish a session that has been idle for this long; 0: never")
	durationVar(flags, &o.Drain, "drain", 30*time.Second, "how long to wait for running requests at the end")
	flags.BoolVar(&o.Linear, "linear", false, "allow one request of a session at a time; refuse another one with status 409")
	flags.IntVar(&o.Workers, "workers", max(1, runtime.NumCPU()-1), "goroutines that make traces of the traffic")
	durationVar(flags, &o.Sync, "sync", time.Second, "how often journals are forced to disk; 0: every line")
	durationVar(flags, &o.Export.Grid, "grid", journal.DefaultGrid, "round times in traces to multiples of this")
	durationVar(flags, &o.Export.MaxGap, "max-gap", 0, "cut longer idle gaps to this; 0: cut none")
	flags.IntVar(&o.Export.MinRequests, "min-requests", 1, "write no trace that has fewer requests")
	flags.BoolVar(&f.asJSON, "json", false, "at the end print the totals as one JSON object")
	f.set = settings.New(flags, f.tell, f.rows()...)
}

// rows are the flags that need a check of their own.
func (f *captureFlags) rows() []settings.Setting {
	o := &f.options
	address := settings.Checked(func(text string) error {
		if _, _, err := net.SplitHostPort(text); err != nil {
			return errors.New("want HOST:PORT")
		}
		return nil
	})
	upstreams := settings.List(func(text string) ([]carry.Upstream, error) {
		u, err := carry.ParseUpstream(text)
		return []carry.Upstream{u}, err
	})
	limits := settings.List(func(text string) ([]string, error) { return []string{text}, setLimit(&capture.Limits{}, text) })
	masks := settings.List(func(text string) (list []journal.Masks, err error) {
		for name := range strings.SplitSeq(text, ",") {
			if list = append(list, journal.MaskOf(name)); journal.MaskOf(name) == 0 {
				err = fmt.Errorf("want one of %s", strings.Join(journal.MaskNames, ", "))
			}
		}
		return list, err
	})
	upstreams.Words, masks.Words, masks.Type = []string{"openai=", "anthropic=", "http://", "https://"}, journal.MaskNames, "stringSlice"
	word := func(name, help string, apply func(v any), words ...string) settings.Setting {
		first, _, _ := strings.Cut(words[0], "\t")
		return settings.Setting{Name: name, Kind: settings.Word(words...), Default: first, Apply: apply, Help: help}
	}
	return []settings.Setting{
		{Name: "listen", Kind: address, Default: "127.0.0.1:0", To: &f.listen, Help: "address for agents; port 0 takes a free one"},
		{Name: "admin", Kind: address, Default: "127.0.0.1:0", To: &f.admin, Help: "address for health, metrics and control"},
		{Name: "upstream", Plain: true, Secret: true, Kind: upstreams, To: &o.Upstreams, Help: "[KIND=]URL of an API; KIND openai or anthropic takes the paths of that API, a bare URL the rest (repeatable)"},
		{Name: "tokenizer", Kind: settings.Checked(tokensource.Check), Default: convert.DefaultTokenizer, To: &f.tokenizer, Help: "tokenizer that counts tokens, as agentx help tokenize names it"},
		word("record", "which requests to record: all, or opted: those with X-Agentx-Capture: on, or a session in the URL. X-Agentx-Capture: off always wins", func(v any) { o.Opted = v == "opted" }, "all", "opted\tthose that ask for it"),
		word("unattributed", "requests that name no session: client, tell sessions apart by the client; drop, do not record them", func(v any) { o.DropUnattributed = v == "drop" }, "client\tby address and credential", "drop"),
		word("on-disconnect", "when a client leaves: cancel its request, or detach: read the reply to its end", func(v any) { o.Detach = v == "detach" }, "cancel", "detach\tread the reply to its end"),
		word("holes", "what to do with a trace that lacks a prompt: cut it before that, drop it, or keep what is known", func(v any) { o.Export.Holes = journal.HolesOf(v.(string)) }, "cut\tbefore the first", "drop\tthe trace", "keep\twhat is known"),
		{Name: "mask", Plain: true, Kind: masks, Help: "what traces hide: " + strings.Join(journal.MaskNames, ", ") + " (repeatable)", Apply: func(v any) {
			for _, m := range v.([]journal.Masks) {
				o.Export.Masks |= m
			}
		}},
		{Name: "limit", Plain: true, Kind: limits, Help: "NAME=VALUE, see above (repeatable)", Apply: func(v any) {
			for _, text := range v.([]string) {
				_ = setLimit(&o.Limits, text) // the kind has checked it
			}
		}},
	}
}

// check resolves the flags, and returns all errors of them.
func (f *captureFlags) check() error {
	f.set.Resolve(nil)
	o := &f.options
	if len(o.Upstreams) == 0 && !f.set.Refused("upstream") {
		f.tell(errors.New("--upstream is missing: name the API to pass requests on to"), "--upstream https://api.anthropic.com")
	}
	if o.Dir == "" {
		f.add("--out is missing: name the directory for traces")
	}
	if (f.cert == "") != (f.key == "") {
		f.add("--tls-cert and --tls-key work only together: add the other one, or leave both out")
	}
	if o.Export.Grid < time.Millisecond || o.Export.MinRequests < 1 { // of Export 0 is the default
		f.add("--grid %v and --min-requests %d: want 1ms or more, and 1 or more", o.Export.Grid, o.Export.MinRequests)
	}
	return f.err()
}

// run captures until a signal.
func (f *captureFlags) run(cmd *cobra.Command, _ []string) error {
	if err := f.check(); err != nil {
		return err
	}
	ctx, o := cmd.Context(), &f.options
	noCores()
	signal.Ignore(syscall.SIGPIPE) // traffic goes on when the process that read the log has ended
	source, err := tokensource.Resolve(ctx, f.tokenizer, hub.Options{})
	if err != nil {
		return hintHub(fmt.Errorf("%s: %w", settings.Shown(cmd.Flags().Lookup("tokenizer"), f.tokenizer), err))
	}
	tok, err := source.Load()
	if err != nil {
		return err
	}
	began := time.Now()
	o.Tokenizer, o.TokenizerName = tok, tok.Name()
	o.Now = func() int64 { return int64(time.Since(began)) }
	o.Wall = func() int64 { return time.Now().Round(0).UnixNano() }
	o.Random = rand.Reader
	o.Free = func() (int64, bool) { return durable.FreeBytes(o.Dir) }
	o.Log = timelessLog(cmd.ErrOrStderr())
	log.SetOutput(io.Discard) // net/http quotes there what an upstream says behind its reply
	if err := o.Validate(); err != nil {
		return usageError{err}
	}
	traffic, admin, err := f.open(ctx)
	if err != nil {
		return err
	}
	if err := loop(traffic.Addr(), o.Upstreams); err != nil {
		return errors.Join(err, traffic.Close(), admin.Close())
	}
	c, err := capture.New(context.WithoutCancel(ctx), *o)
	if errors.Is(err, journal.ErrBusy) {
		err = hintError{err, "another --out, or end that process"}
	}
	if err != nil {
		return errors.Join(err, traffic.Close(), admin.Close())
	}
	scheme := "http"
	if f.cert != "" {
		scheme = "https"
	}
	fmt.Fprintf(cmd.OutOrStdout(), "listening %s://%s\nadmin http://%s\n", scheme, traffic.Addr(), admin.Addr())
	if quiet, _ := cmd.Flags().GetBool("quiet"); !quiet {
		f.tellVariables(cmd.ErrOrStderr(), scheme+"://"+traffic.Addr().String())
	}
	f.tellDoors(cmd.ErrOrStderr(), traffic.Addr())
	if err = c.Serve(ctx, traffic, admin); err != nil {
		err = endError{err}
	}
	if f.asJSON {
		return errors.Join(err, printJSON(cmd.OutOrStdout(), c.Summary()))
	}
	fmt.Fprintln(cmd.OutOrStdout(), c.Summary())
	return err
}

// timelessLog returns a log without the time of day, which would tell when people worked.
func timelessLog(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// loop returns an error if an upstream is the capture itself: a request would then go around until the process runs out of file descriptors.
func loop(listening net.Addr, upstreams []carry.Upstream) error {
	at, ok := listening.(*net.TCPAddr)
	if !ok {
		return nil
	}
	for _, u := range upstreams {
		host, port, err := net.SplitHostPort(u.Host)
		if err != nil || port != strconv.Itoa(at.Port) {
			continue
		}
		ip := net.ParseIP(host)
		here := host == "localhost" || ip.IsLoopback()
		if ip.Equal(at.IP) || here && at.IP.IsUnspecified() || host == "localhost" && at.IP.IsLoopback() {
			return usageError{fmt.Errorf("--upstream %s://%s: the capture itself listens there: name the API instead", u.Scheme, u.Host)}
		}
	}
	return nil
}

// tellVariables prints the variables that send agents to the capture.
func (f *captureFlags) tellVariables(w io.Writer, url string) {
	for _, all := range []string{"[::]", "0.0.0.0"} { // clients cannot connect to these
		url = strings.Replace(url, "://"+all+":", "://127.0.0.1:", 1)
	}
	serves := func(kind carry.Kind) bool {
		return slices.ContainsFunc(f.options.Upstreams, func(u carry.Upstream) bool { return u.Kind == kind || u.Kind == carry.Any })
	}
	if serves(carry.Anthropic) {
		printError(w, "export ANTHROPIC_BASE_URL="+url)
	}
	if serves(carry.OpenAI) {
		printError(w, "export OPENAI_BASE_URL="+url+"/v1")
	}
}

// tellDoors says who may use the listeners that other machines can reach.
func (f *captureFlags) tellDoors(w io.Writer, traffic net.Addr) {
	if f.drawn {
		printError(w, tokenLine("--admin", f.options.AdminToken))
	}
	if guard.Beyond(traffic) {
		printError(w, fmt.Sprintf("agentx: --listen %s serves everybody who can reach it: agents bring their own keys, and %s protects --admin alone", traffic, guard.Variable))
	}
}

// open opens both listeners, and finds the token of the admin listener.
func (f *captureFlags) open(ctx context.Context) (traffic, admin net.Listener, err error) {
	var config net.ListenConfig
	if admin, err = config.Listen(ctx, "tcp", f.admin); err != nil {
		return nil, nil, fmt.Errorf("--admin: %w", err)
	}
	if f.options.AdminToken, f.drawn, err = guard.Token(admin.Addr(), os.Getenv(guard.Variable), rand.Reader); err != nil {
		return nil, nil, errors.Join(usageError{err}, admin.Close())
	}
	if traffic, err = config.Listen(ctx, "tcp", f.listen); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("--listen: %w", err), admin.Close())
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("--tls-cert: %w", err), admin.Close(), traffic.Close())
		}
		traffic = tls.NewListener(traffic, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	}
	return traffic, admin, nil
}

// limitsOf returns a flag for each limit of a capture, by the name that --limit takes. Options.Validate checks the values.
func limitsOf(l *capture.Limits) *pflag.FlagSet {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.Var(size(&l.RequestCopy), "request_copy", "")
	flags.Var(size(&l.ReplyCopy), "reply_copy", "")
	flags.Var(size(&l.Copies), "copies", "")
	flags.Var(size(&l.Queue), "queue", "")
	flags.IntVar(&l.Sessions, "sessions", l.Sessions, "")
	flags.IntVar(&l.Blocks, "blocks", l.Blocks, "")
	flags.IntVar(&l.Nodes, "nodes", l.Nodes, "")
	flags.Var(duration(&l.HeaderTimeout), "header_timeout", "")
	flags.Var(duration(&l.Stall), "stall", "")
	flags.Var(size(&l.DiskFree), "disk_free", "")
	return flags
}

// limitNames returns the names that --limit takes.
func limitNames() (names []string) {
	limitsOf(&capture.Limits{}).VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// setLimit sets a limit by NAME=VALUE.
func setLimit(to *capture.Limits, text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return errors.New("want NAME=VALUE")
	}
	if flags := limitsOf(to); flags.Lookup(name) != nil {
		return settings.Explain(flags.Set(name, value))
	}
	if near := suggest.Closest(name, limitNames()); near != "" {
		return fmt.Errorf("unknown limit: did you mean %s?", near)
	}
	return fmt.Errorf("unknown limit: want one of %s", strings.Join(limitNames(), ", "))
}

func newCaptureFinish() *cobra.Command {
	return answering(&cobra.Command{
		Use:   "finish DIR",
		Short: "Make traces of the journals that a crash left",
		Long: `Make traces of the journals that a crash left in the directory of a capture. A capture that starts in
the directory does the same.

A journal is read up to the first line that is not whole. The same journal gives the same bytes, however
often finish itself is interrupted. The journal says how its trace is written: grid, masks, holes. A
trace that fails its check is set aside as TRACE.json.bad: exit 3.

The last line is the folder of the traces.`,
		Example: "  agentx convert $(agentx capture finish DIR | tail -n 1)",
	}, cobra.ExactArgs(1), finishCapture)
}

// finished is the JSON of capture finish.
type finished struct {
	*finish.Total
	Out string `json:"out"`
}

// finishCapture makes traces of the journals in the directory of a capture.
func finishCapture(cmd *cobra.Command, args []string) (_ any, _ func(io.Writer), err error) {
	dir := args[0]
	if _, err := os.Stat(filepath.Join(dir, "journal")); err != nil {
		return nil, nil, usageError{fmt.Errorf("capture finish: %s is not the directory of a capture: %w", dir, err)}
	}
	folder, err := journal.OpenFolder(cmd.Context(), dir, false)
	if errors.Is(err, journal.ErrBusy) {
		err = hintError{err, "end that process, which finishes its sessions itself; or another directory"}
	}
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	list, err := finish.Recover(cmd.Context(), folder)
	total := finish.NewTotal()
	for _, r := range list {
		total.Add(r)
	}
	out := filepath.Join(dir, journal.TracesDir)
	if err == nil && total.Bad > 0 {
		err = verdictError{fmt.Errorf("capture finish: %d of %d sessions gave no valid trace: their journals are renamed to .bad", total.Bad, total.Sessions)}
	}
	return finished{total, out}, func(w io.Writer) { printFinished(w, list, total, out) }, err
}

// printFinished prints a line for each session that is not whole, sums, and the folder of the traces.
func printFinished(w io.Writer, list []finish.Result, total *finish.Total, out string) {
	safe := terminal.Writer(w)
	for _, r := range list {
		for _, problem := range r.Problems {
			fmt.Fprintf(safe, "bad %s: %s\n", r.Trace, problem)
		}
		if r.Incomplete && !r.Bad {
			fmt.Fprintf(safe, "incomplete %s: %d of %d requests\n", r.Trace, r.Recorded, r.Requests)
		}
	}
	fmt.Fprintf(safe, "%s: %s, %d of %s\n", bytefmt.Count(total.Sessions, "session"), bytefmt.Count(total.Traces, "trace"), total.Recorded, bytefmt.Count(total.Requests, "request"))
	fmt.Fprintln(w, out)
}

// captureCheckFlags are the flags of capture check.
type captureCheckFlags struct {
	trie, setAside, asJSON bool
}

func newCaptureCheck() *cobra.Command {
	var f captureCheckFlags
	cmd := &cobra.Command{
		Use:   "check INPUT...",
		Short: "Check captured traces; exit 3 when one is bad",
		Long: `Check traces as capture writes them, which is stricter than what convert reads: every key and word, ids
numbered by first sight, times, sums. A line tells what is wrong, and where. An INPUT is a file or a
directory of traces in JSON, as convert takes them; the directory of a capture stands for its traces.

Alarms do not make a trace bad. They are about prompts that lack the last block of the prompt before, or
that begin anew too often: something that changes was probably hashed with them.

--trie prints the digest of each trace's trie of blocks, and its nodes: the shape of the trace, whatever
the numbers of blocks and the order of requests. Two captures of one thing have equal digests.`,
		Example: "  agentx capture check DIR\n  agentx capture check DIR/traces --trie",
		Args:    checkArgs(cobra.MinimumNArgs(1)),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	cmd.Flags().BoolVar(&f.trie, "trie", false, "print the digest of each trace")
	cmd.Flags().BoolVar(&f.setAside, "set-aside", false, "rename a file with a bad trace to FILE.bad, which convert passes over")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "one JSON object")
	return cmd
}

// checkedTraces is the JSON of capture check.
type checkedTraces struct {
	Traces  int            `json:"traces"`
	Bad     int            `json:"bad"`
	Alarmed int            `json:"alarmed"`
	Files   []checkedTrace `json:"files"`
}

// checkedTrace is the result of checking one trace.
type checkedTrace struct {
	Where    string   `json:"where"`
	Trace    string   `json:"trace,omitempty"`
	Requests int      `json:"requests"`
	Problems []string `json:"problems"`
	More     int      `json:"more_problems,omitempty"`
	Alarms   []string `json:"alarms"`
	Nodes    *int     `json:"nodes,omitempty"`
	Digest   string   `json:"digest,omitempty"`
	SetAside string   `json:"set_aside,omitempty"`
}

// run checks all traces of some inputs.
func (f *captureCheckFlags) run(cmd *cobra.Command, args []string) error {
	snapshot, err := hfsource.Resolve(cmd.Context(), args, inputSources(cmd))
	if err != nil {
		return hintConvert(err)
	}
	defer snapshot.Close()
	all := checkedTraces{Files: []checkedTrace{}}
	w := cmd.OutOrStdout()
	err = snapshot.Rows(cmd.Context(), nil, nil, func(row hfsource.Row) error {
		c, err := f.check(row)
		row.Free()
		if err != nil {
			return err
		}
		all.Traces++
		all.Bad += min(len(c.Problems), 1)
		all.Alarmed += min(len(c.Alarms), 1)
		if f.asJSON {
			all.Files = append(all.Files, c)
		} else {
			c.print(terminal.Writer(w))
		}
		return nil
	})
	if err != nil {
		return hintConvert(err)
	}
	if f.asJSON {
		if err := printJSON(w, all); err != nil {
			return err
		}
	} else if !f.trie || all.Bad+all.Alarmed > 0 {
		fmt.Fprintf(w, "%s, %d bad, %d with alarms\n", bytefmt.Count(all.Traces, "trace"), all.Bad, all.Alarmed)
	}
	if all.Bad > 0 {
		return verdictError{fmt.Errorf("capture check: %d of %d traces are bad", all.Bad, all.Traces)}
	}
	return nil
}

// check checks the trace of a row.
func (f *captureCheckFlags) check(row hfsource.Row) (checkedTrace, error) {
	c := checkedTrace{Where: row.Location(), Problems: []string{}, Alarms: []string{}}
	switch {
	case row.Err != nil:
		c.Problems = append(c.Problems, row.Err.Error())
		return c, nil
	case row.Columns != nil:
		return c, usageError{fmt.Errorf("capture check: %s is a table of columns, and check reads JSON alone: name a file of traces in JSON", row.File)}
	}
	found := weka.Check(row.Data)
	c.Requests, c.More = found.Requests, found.More
	c.Problems, c.Alarms = append(c.Problems, found.Problems...), append(c.Alarms, found.Alarms...)
	trace := found.Trace
	if trace == nil && f.trie {
		trace, _ = weka.Scan(row.Data, rules.Default()) // what is no good trace may have a shape
	}
	if trace != nil {
		c.Trace = trace.ID
	}
	if trace != nil && f.trie {
		trie := weka.TrieOf(trace)
		nodes, digest := trie.Nodes(), trie.Digest()
		c.Nodes, c.Digest = &nodes, hex.EncodeToString(digest[:])
	}
	if f.setAside && len(c.Problems) > 0 {
		return c, c.setAside(row)
	}
	return c, nil
}

// setAside renames the file of a bad trace to FILE.bad. The file must have no other trace.
func (c *checkedTrace) setAside(row hfsource.Row) error {
	if row.Line != 0 {
		return usageError{fmt.Errorf("--set-aside: %s has several traces, and only files of one trace can be renamed: leave --set-aside out", row.File)}
	}
	c.SetAside = row.File + ".bad"
	return os.Rename(row.File, c.SetAside)
}

// print prints what is wrong with a trace, and its digest.
func (c *checkedTrace) print(w io.Writer) {
	for _, problem := range c.Problems {
		fmt.Fprintf(w, "bad %s: %s\n", c.Where, problem)
	}
	if c.More > 0 {
		fmt.Fprintf(w, "bad %s: and %d more\n", c.Where, c.More)
	}
	for _, alarm := range c.Alarms {
		fmt.Fprintf(w, "alarm %s: %s\n", c.Where, alarm)
	}
	if c.Digest != "" {
		fmt.Fprintf(w, "%s %d %s\n", c.Digest, *c.Nodes, c.Trace)
	}
}
