package replay

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/scrape"
	"github.com/agentx/agentx/replay/wire"
)

// clientOptions returns what the clients of a run share.
func (o *Options) clientOptions() wire.Options {
	w := wire.Options{
		Timeout: o.Timeout, StallTimeout: max(0, o.StallTimeout), FirstByteTimeout: max(0, o.FirstByteTimeout), UserTimeout: o.TCPUserTimeout, KeepAlive: o.KeepAlive, Reuse: o.Reuse,
		OverflowRegexps: o.OverflowPatterns, Header: o.Header, APIKey: o.APIKey,
	}
	w.TLS, _ = o.TLS.config() // Validate has read it
	w.TextTokens = o.switches().TextTokens
	w.AIPerfForms = o.switches().AIPerfForms
	switch o.switches().OverflowWords {
	case preset.WordsOfAIPerf:
		w.OverflowPatterns = wire.AIPerfOverflowPatterns
	case preset.NoWords:
		w.OverflowPatterns = []string{}
	}
	if o.Provenance.Version != "" {
		w.UserAgent = wire.DefaultUserAgent + "/" + o.Provenance.Version
	}
	return w
}

// servers are the clients of a run, one for each of its URLs. Trees are dealt to them in the order in which they open, and
// all sessions of a tree use one server, in every phase: what a parent left in a prefix cache is there for its children.
type servers struct {
	clients []*wire.Client
	indexes []int // what records point to
}

// connect returns clients of servers. Nothing is sent yet.
func connect(urls []string, o wire.Options) (s servers, err error) {
	for k, url := range urls {
		c, err := wire.New(url, o)
		if err != nil {
			return servers{}, err
		}
		s.clients, s.indexes = append(s.clients, c), append(s.indexes, k)
	}
	return s, nil
}

// of returns the client of a tree, by its number in the whole load.
func (s *servers) of(tree int) *wire.Client { return s.clients[tree%len(s.clients)] }

// route returns the route of a tree to its server, by its number in the whole load: trees take the addresses of a server in turn.
func (s *servers) route(tree int) *wire.Route { return wire.NewRoute(tree / len(s.indexes)) }

// indexOf returns the position of a tree's URL in those of the run; nil: the run has one.
func (s *servers) indexOf(tree int) *int {
	if len(s.indexes) == 1 {
		return nil
	}
	return &s.indexes[tree%len(s.indexes)]
}

// close closes the kept connections.
func (s *servers) close() {
	for _, c := range s.clients {
		c.Close()
	}
}

// Names of header fields.
const (
	requestHeader      = "X-Request-ID"
	affinityHeader     = "X-Session-Affinity"
	dynamoHeader       = "X-Dynamo-Session-ID"
	dynamoParentHeader = "X-Dynamo-Parent-Session-ID"
)

// SessionHeader are the header fields by which requests tell their session, besides X-Session-Affinity. The zero value has
// X-Correlation-ID alone.
type SessionHeader struct {
	// Correlation is the name of the field with the correlation id of the session. A field of
	// Options.Header with this name replaces it.
	Correlation string

	// More are the names of further fields with that id. They replace every other field with the same name, in any letter
	// case. With X-Dynamo-Session-ID the requests of a child have X-Dynamo-Parent-Session-ID, too.
	More []string
}

// Validate returns an error that names the first field that cannot be used.
func (h SessionHeader) Validate() error {
	names := h.More
	if h.Correlation != "" {
		if strings.EqualFold(h.Correlation, requestHeader) {
			return fmt.Errorf("correlation header %s: agentx writes the id of the request there: choose another name", h.Correlation)
		}
		names = append([]string{h.Correlation}, names...)
	}
	for k, name := range names {
		field := wire.HeaderField{Name: name}
		if err := field.Validate(); err != nil {
			return err
		}
		if slices.ContainsFunc(names[:k], func(other string) bool { return strings.EqualFold(other, name) }) {
			return fmt.Errorf("session header %s: named twice", name)
		}
	}
	if slices.ContainsFunc(h.More, func(name string) bool { return strings.EqualFold(name, dynamoParentHeader) }) {
		return errors.New("session header " + dynamoParentHeader + ": agentx writes the id of the parent there: use " + dynamoHeader + ", which sets both")
	}
	return nil
}

// idsOf returns the fields with the ids of a request. The first may be replaced by those of the user, the others may not.
func (s *requestSender) idsOf(r *measure.Record) (ids, session []wire.HeaderField) {
	id := r.CorrelationID
	fields := make([]wire.HeaderField, 0, 5)
	fields = append(fields, wire.HeaderField{Name: requestHeader, Value: r.RequestID}, wire.HeaderField{Name: s.SessionHeader.Correlation, Value: id})
	if s.Switches.AffinityHeader {
		fields = append(fields, wire.HeaderField{Name: affinityHeader, Value: id})
	}
	for _, name := range s.SessionHeader.More {
		if s.Switches.AffinityHeader && strings.EqualFold(name, affinityHeader) {
			continue
		}
		fields = append(fields, wire.HeaderField{Name: name, Value: id})
		if r.ParentID != "" && strings.EqualFold(name, dynamoHeader) {
			fields = append(fields, wire.HeaderField{Name: dynamoParentHeader, Value: r.ParentID})
		}
	}
	return fields[:2:2], fields[2:]
}

// messagesVersion is the version of the Messages API that requests ask for.
const messagesVersion = "2023-06-01"

// useMessagesHeader gives requests the version and the key as the Messages API wants them. Fields of the user with the same names
// replace both.
func (o *Options) useMessagesHeader() {
	header := []wire.HeaderField{{Name: "anthropic-version", Value: messagesVersion}}
	if o.APIKey != "" {
		header = append(header, wire.HeaderField{Name: "x-api-key", Value: o.APIKey})
		o.APIKey = ""
	}
	o.Header = append(header, o.Header...)
}

// TLS says which certificates the servers of https URLs may have. The zero value takes those that are for their names and signed by an
// authority that the system knows.
type TLS struct {
	CAFile     string // certificates of further authorities, PEM; "": none
	ServerName string // name that certificates are to be for, and that servers are asked for; "": that of each URL
	Insecure   bool   // no certificate is looked at: anybody may be the server
}

// Validate returns an error about a file that cannot be used.
func (t TLS) Validate() error {
	if t.Insecure && t.CAFile != "" {
		return errors.New("contradicts insecure, which checks no certificate: leave one of them out")
	}
	_, err := t.config()
	return err
}

// config returns the configuration of connections, nil for the system's.
func (t TLS) config() (*tls.Config, error) {
	if t == (TLS{}) {
		return nil, nil
	}
	c := &tls.Config{ServerName: t.ServerName, InsecureSkipVerify: t.Insecure}
	if t.CAFile == "" {
		return c, nil
	}
	text, err := os.ReadFile(t.CAFile)
	if err != nil {
		return nil, err
	}
	if c.RootCAs, err = x509.SystemCertPool(); err != nil {
		c.RootCAs = x509.NewCertPool()
	}
	if !c.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----", t.CAFile)
	}
	return c, nil
}

// validateCookies returns an error where a header field is sent that KeepCookies sends, too.
func (o Options) validateCookies() error {
	for _, f := range o.Header {
		if o.KeepCookies && slices.Contains([]string{"cookie", "x-session-token"}, strings.ToLower(f.Name)) {
			return fmt.Errorf("header %s and keep-cookies, which sends the cookies that the server set, contradict each other: leave one of them out", f.Name)
		}
	}
	return nil
}

// versionDocuments are the documents in which servers tell their version, below their roots, in the order in which they are asked for.
var versionDocuments = []struct {
	path, software string // "": what owned_by of the list of models says
}{{"/server_info", "sglang"}, {"/get_server_info", "sglang"}, {"/version", ""}, {"/props", "llama.cpp"}, {"/info", "text-generation-inference"}}

// versionDocument has what is read of any of them.
type versionDocument struct {
	Version    any
	BuildInfo  any         `json:"build_info"` // llama.cpp
	ModelID    any         `json:"model_id"`   // text-generation-inference
	serverArgs             // SGLang
	Args       *serverArgs `json:"server_args"` // SGLang before 0.5
}

// serverArgs are those of the arguments of SGLang that are read.
type serverArgs struct {
	DisableRadix any `json:"disable_radix_cache"`
	ModelPath    any `json:"model_path"`
	TP           any `json:"tp_size"`
	PP           any `json:"pp_size"`
	DP           any `json:"dp_size"`
	EP           any `json:"ep_size"`
}

// parallel returns the degrees of parallelism, such as tp 8, dp 2; "": not known. Of one that is 1 the first alone is told.
func (a *serverArgs) parallel() string {
	var parts []string
	for k, d := range []struct {
		name string
		n    any
	}{{"tp", a.TP}, {"pp", a.PP}, {"dp", a.DP}, {"ep", a.EP}} {
		if n, ok := d.n.(float64); ok && n >= 1 && n < 1e6 && n == math.Trunc(n) && (k == 0 || n > 1) {
			parts = append(parts, fmt.Sprintf("%s %.0f", d.name, n))
		}
	}
	return strings.Join(parts, ", ")
}

// askServers fills in what the servers of a run tell of themselves: doc/spec/replay.md 2.8. It is called when the measured phase is over, so
// that no request waits for it, and takes no longer than a time.
func (r *run) askServers(ctx context.Context, atMost time.Duration) {
	if r.SkipPreflight {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	var all sync.WaitGroup
	for k, url := range r.URLs {
		all.Go(func() { r.askServer(ctx, url, &r.results.info.Servers[k]) })
	}
	all.Wait()
}

// endServers ends the reading of the pages of metrics, and asks the servers meanwhile. Of a run that has come to its end that takes as long
// as scrape.Tail, of another one lastWait.
func (r *run) endServers(ctx context.Context, whole bool) {
	asking, atMost := ctx, scrape.Tail
	if !whole {
		asking, atMost = context.WithoutCancel(ctx), lastWait
	}
	var asked sync.WaitGroup
	asked.Go(func() { r.askServers(asking, atMost) })
	r.results.info.ServerMetrics = r.scraping.end(ctx, whole)
	asked.Wait()
	for k, url := range r.URLs {
		if on, known := r.scraping.labelOf(url, len(r.URLs) == 1, "vllm:cache_config_info", "enable_prefix_caching"); known {
			s := &r.results.info.Servers[k]
			s.PrefixCaching, s.PrefixCachingFrom = &on, measure.FromMetrics
		}
	}
}

// askServer asks one server for its version.
func (r *run) askServer(ctx context.Context, url string, s *measure.Server) {
	w := r.clientOptions()
	w.Timeout, w.DialTimeout = modelsTimeout, modelsTimeout
	c, err := wire.New(url, w)
	if err != nil {
		return
	}
	defer c.Close()
	for _, d := range versionDocuments {
		text, f := c.GetBelowRoot(ctx, d.path)
		if f != nil && f.Code == 0 {
			return
		}
		var doc versionDocument
		if f != nil || json.Unmarshal(text, &doc) != nil {
			continue
		}
		version := doc.Version
		switch d.path {
		case "/props":
			version = doc.BuildInfo
		case "/info":
			if doc.ModelID == nil {
				continue
			}
		}
		v := told(c, version)
		if v == "" {
			continue
		}
		s.Version, s.Software = v, d.software
		switch d.software {
		case "":
			s.Software, s.ModelPath = r.ownerOf(ctx, c)
		case "sglang":
			args := &doc.serverArgs
			if doc.Args != nil {
				args = doc.Args
			}
			s.ModelPath, s.Parallel = told(c, args.ModelPath), args.parallel()
			if off, known := args.DisableRadix.(bool); known {
				on := !off
				s.PrefixCaching, s.PrefixCachingFrom = &on, measure.FromServer
			}
		case "text-generation-inference":
			s.ModelPath = told(c, doc.ModelID)
		}
		return
	}
}

// told returns a text of a server as one line without secrets, "" of another value.
func told(c *wire.Client, v any) string {
	text, _ := v.(string)
	words := strings.FieldsFunc(c.Redact(text), func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) })
	return clip(strings.Join(words, " "), maxTold)
}

// maxTold bounds such a text, bytes.
const maxTold = 100

// ownerOf returns vllm, and the path of its model, if the list of models says that it is of vLLM; else "".
func (r *run) ownerOf(ctx context.Context, c *wire.Client) (software, path string) {
	text, f := c.Get(ctx, "/v1/models")
	var list struct {
		Data []struct {
			Owner any `json:"owned_by"`
			Root  any `json:"root"`
		}
	}
	if f == nil && json.Unmarshal(text, &list) == nil && len(list.Data) > 0 && list.Data[0].Owner == "vllm" {
		return "vllm", told(c, list.Data[0].Root)
	}
	return "", ""
}

// labelOf returns what a label of the pages of a server says, True or False; known is false where none says it, or two differ. Where the
// run has one server, all pages are its.
func (s *scraping) labelOf(server string, all bool, metric, label string) (value, known bool) {
	if s == nil {
		return false, false
	}
	var said []string
	for page, values := range s.collector.Labels(metric, label) {
		if all || wire.SameServer(server, page) {
			said = append(said, values...)
		}
	}
	slices.Sort(said)
	said = slices.Compact(said)
	if len(said) != 1 {
		return false, false
	}
	return said[0] == "True", said[0] == "True" || said[0] == "False"
}
