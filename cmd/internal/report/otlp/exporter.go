// Package otlp sends the requests of a run as spans, and its figures as metrics, to a collector of OpenTelemetry: OTLP/JSON over HTTP, with
// the names of the conventions for generative AI. doc/spec/report.md 7.4 has the rules.
//
// A run never waits for an exporter, which gets records that are written already, queues a bounded number of them, and drops others.
// It uses no SDK: that of OpenTelemetry with its two exporters would add 8.1 MB to a program of 28.3.
package otlp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/agentx/agentx/replay/measure"
)

const (
	tracesPath, metricsPath = "/v1/traces", "/v1/metrics"

	queued       = 16384            // records that may wait
	batch        = 512              // spans of one message
	metricsEvery = 10 * time.Second // how often metrics are sent
	leastWait    = time.Second      // before a message is sent again; doubled each time
	mostWait     = 30 * time.Second
	answerWithin = 10 * time.Second
	patience     = 3 * time.Second // at the end of a run
)

// headersVariable is the variable with headers that every exporter of OpenTelemetry reads. The variable of the endpoint is not read: containers
// set it for other programs, and exporting costs CPU of the client, so the user must ask for it.
const headersVariable = "OTEL_EXPORTER_OTLP_HEADERS"

// Endpoint returns the URL of a collector for a text, "" for an empty text and off. It also checks the headers of the environment. Errors quote
// neither, because both may hold a password.
func Endpoint(text string) (string, error) {
	if text == "" || text == "off" {
		return "", nil
	}
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", errors.New("want the http URL of a collector, such as http://127.0.0.1:4318")
	}
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), tracesPath)
	_, err = headers()
	return u.String(), err
}

// headers reads the headers in headersVariable: NAME=VALUE,NAME=VALUE, percent-encoded.
func headers() (http.Header, error) {
	h := http.Header{"Content-Type": {"application/json"}}
	for k, pair := range strings.Split(os.Getenv(headersVariable), ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || err != nil || name == "" {
			return nil, fmt.Errorf("%s: entry %d: want NAME=VALUE, with commas between entries", headersVariable, k+1)
		}
		h.Set(name, value)
	}
	return h, nil
}

// Options say what is exported, and where to.
type Options struct {
	Endpoint  string   // of the function Endpoint
	Version   string   // of agentx
	Operation string   // chat or text_completion
	Provider  string   // whose API the servers speak: openai or anthropic
	Model     string   // that requests ask for
	URLs      []string // of the servers
	Figures   func() []*dto.MetricFamily

	// Tests set these; 0: the constants above.
	clock          <-chan time.Time // when metrics are sent
	wait, patience time.Duration
	queue          int
}

// Exporter sends requests and metrics in a goroutine of its own. The caller must call Close. Its methods do nothing on nil.
type Exporter struct {
	o        Options
	endpoint *url.URL
	header   http.Header
	resource []attribute
	client   *http.Client
	queue    chan entry
	closing  chan struct{} // closed when nothing more is to come
	done     chan struct{} // closed when everything is sent or given up
	ctx      context.Context
	cancel   context.CancelFunc
	began    time.Time

	mu        sync.Mutex
	phases    map[string]time.Time
	delivered Delivery
}

// Delivery counts the requests that were sent and dropped.
type Delivery struct {
	Sent, Dropped int
	Err           error // the last failure; nil: there was none
}

// entry is a request that waits to be sent.
type entry struct {
	record measure.Record
	start  time.Time // of its phase
}

// New starts an exporter.
func New(o Options) (*Exporter, error) {
	endpoint, err := url.Parse(o.Endpoint)
	if err != nil {
		return nil, err
	}
	header, err := headers()
	if err != nil {
		return nil, err
	}
	if o.queue == 0 {
		o.queue, o.wait, o.patience = queued, leastWait, patience
	}
	e := &Exporter{
		o: o, endpoint: endpoint, header: header, began: time.Now(),
		queue: make(chan entry, o.queue), closing: make(chan struct{}), done: make(chan struct{}),
		phases:   map[string]time.Time{},
		resource: []attribute{text("service.name", "agentx"), text("service.version", o.Version), text("service.instance.id", rand.Text())},
		client: &http.Client{
			Transport: http.DefaultTransport.(*http.Transport).Clone(), Timeout: answerWithin,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // headers are for the collector alone
		},
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	go e.run()
	return e, nil
}

// Begin notes when a phase began. The caller calls it before it adds records of the phase.
func (e *Exporter) Begin(phase string, start time.Time) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.phases[phase] = start
}

// Add queues a request that is over, or drops it. It keeps a copy of the record.
func (e *Exporter) Add(r *measure.Record) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	start, ok := e.phases[r.Phase]
	if !ok { // Begin was not called yet
		start = time.Now().Add(-time.Duration(r.End))
	}
	select {
	case e.queue <- entry{*r, start}:
	default:
		e.delivered.Dropped++
		e.delivered.Err = errors.New("the collector is slower than the run")
	}
}

// Close sends what is queued, for at most Options.patience, and returns how many requests were sent and dropped.
func (e *Exporter) Close() Delivery {
	if e == nil {
		return Delivery{}
	}
	close(e.closing)
	defer time.AfterFunc(e.o.patience, e.cancel).Stop()
	<-e.done
	e.cancel()
	e.client.CloseIdleConnections()
	return e.delivered
}

// run sends until the exporter closes.
func (e *Exporter) run() {
	defer close(e.done)
	clock := e.o.clock
	if clock == nil {
		ticker := time.NewTicker(metricsEvery)
		defer ticker.Stop()
		clock = ticker.C
	}
	for {
		select {
		case first := <-e.queue:
			e.sendSpans(first)
		case <-clock:
			e.sendMetrics()
		case <-e.closing:
			for len(e.queue) > 0 {
				e.sendSpans(<-e.queue)
			}
			e.sendMetrics()
			return
		}
	}
}

// sendSpans sends a request and those that are queued, at most batch.
func (e *Exporter) sendSpans(first entry) {
	spans := []object{e.span(first)}
	for len(e.queue) > 0 && len(spans) < batch {
		spans = append(spans, e.span(<-e.queue))
	}
	rejected, err := e.deliver(tracesPath, e.message("Spans", spans))
	if rejected = min(rejected, len(spans)); err != nil && rejected == 0 {
		rejected = len(spans)
	}
	e.note(Delivery{len(spans) - rejected, rejected, err})
}

// sendMetrics sends the figures of the run now.
func (e *Exporter) sendMetrics() {
	_, err := e.deliver(metricsPath, e.message("Metrics", e.metrics(time.Now())))
	e.note(Delivery{Err: err})
}

// note adds the result of sending a message.
func (e *Exporter) note(d Delivery) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.delivered.Sent += d.Sent
	e.delivered.Dropped += d.Dropped
	if d.Err != nil {
		e.delivered.Err = d.Err
	}
}

// deliver sends a message, again and again after failures that may pass. When the exporter closes it tries once more.
func (e *Exporter) deliver(path string, message any) (rejected int, err error) {
	body, err := json.Marshal(message)
	if err != nil {
		return 0, err
	}
	for wait := e.o.wait; ; wait = min(2*wait, mostWait) {
		pause, last := time.After(wait), false
		select {
		case <-e.closing:
			last = true
		default:
		}
		again := false
		if rejected, again, err = e.post(path, body); err == nil || !again || last {
			return rejected, err
		}
		select {
		case <-pause:
		case <-e.closing:
		}
	}
}

// passing are the statuses after which another attempt may succeed.
var passing = []int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

// post sends a message once. rejected counts the spans that the collector refused; again: another attempt may succeed.
func (e *Exporter) post(path string, body []byte) (rejected int, again bool, err error) {
	request, err := http.NewRequestWithContext(e.ctx, http.MethodPost, e.endpoint.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return 0, false, err
	}
	request.Header = e.header
	answer, err := e.client.Do(request)
	if err != nil {
		if e.ctx.Err() != nil {
			return 0, false, errors.New("the collector did not answer in time")
		}
		return 0, true, errors.Unwrap(err) // without the URL, which may have a password
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if answer.StatusCode/100 != 2 {
		return 0, slices.Contains(passing, answer.StatusCode), fmt.Errorf("%s answers with status %d", path, answer.StatusCode)
	}
	var partial struct {
		PartialSuccess struct {
			RejectedSpans any
			ErrorMessage  string
		}
	}
	_ = json.Unmarshal(text, &partial) // without one everything was taken
	if rejected, _ = strconv.Atoi(fmt.Sprint(partial.PartialSuccess.RejectedSpans)); rejected > 0 {
		return rejected, false, fmt.Errorf("the collector rejected %s: %s", measure.Plural(rejected, "span", "spans"), partial.PartialSuccess.ErrorMessage)
	}
	return 0, false, nil
}

type object = map[string]any

// attribute is a name with a value, as OTLP/JSON has it.
type attribute struct {
	Key   string `json:"key"`
	Value object `json:"value"`
}

// text returns an attribute that is a text, whole one that is an integer, and seconds one that is a duration.
func text(key, value string) attribute { return attribute{key, object{"stringValue": value}} }

func whole(key string, n int64) attribute {
	return attribute{key, object{"intValue": strconv.FormatInt(n, 10)}}
}

func seconds(key string, s measure.Lapse) attribute {
	return attribute{key, object{"doubleValue": s.Seconds()}}
}

// message returns a message of a list of spans or metrics: kind is Spans or Metrics.
func (e *Exporter) message(kind string, list []object) object {
	return object{"resource" + kind: []object{{
		"resource":     object{"attributes": e.resource},
		"scope" + kind: []object{{"scope": object{"name": "github.com/agentx/agentx"}, strings.ToLower(kind): list}},
	}}}
}

// common are the attributes of every request.
func (e *Exporter) common() []attribute {
	return []attribute{text("gen_ai.operation.name", e.o.Operation), text("gen_ai.provider.name", e.o.Provider), text("gen_ai.request.model", e.o.Model)}
}

// span returns a request as a span of kind CLIENT. The requests of a tree are one trace, whose id is the correlation id of its root.
func (e *Exporter) span(of entry) object {
	r := &of.record
	at := func(t measure.Time) string { return unixNano(of.start.Add(time.Duration(t))) }
	attributes := append(e.common(),
		text("gen_ai.conversation.id", r.CorrelationID), whole("gen_ai.request.max_tokens", r.MaxTokens), text("agentx.phase", r.Phase), text("agentx.bucket", string(r.Bucket)),
		text("agentx.request_id", r.RequestID), text("agentx.trace", r.Trace), text("agentx.session", r.Session), whole("agentx.lane", int64(r.Lane)), whole("agentx.tree", int64(r.Tree)),
		whole("agentx.turn", int64(r.Turn)), seconds("agentx.lateness", measure.Lapse{From: r.Due + r.Queued, To: r.Sent}))
	number := 0
	if r.URL != nil {
		number = *r.URL
	}
	if u, err := url.Parse(e.o.URLs[number]); err == nil {
		port, _ := strconv.ParseInt(u.Port(), 10, 64)
		port = cmp.Or(port, map[string]int64{"http": 80, "https": 443}[u.Scheme])
		attributes = append(attributes, text("server.address", u.Hostname()), whole("server.port", port))
	}
	for key, n := range map[string]int64{
		"gen_ai.usage.input_tokens": r.PromptTokens.N(), "gen_ai.usage.output_tokens": r.OSL(), "gen_ai.usage.cache_read.input_tokens": r.CachedTokens.N(),
		"gen_ai.usage.cache_creation.input_tokens": r.CacheWriteTokens.N(),
	} {
		if n != measure.Unknown {
			attributes = append(attributes, whole(key, n))
		}
	}
	if r.Status > 0 {
		attributes = append(attributes, whole("http.response.status_code", int64(r.Status)))
	}
	if r.FinishReason != "" {
		attributes = append(attributes, attribute{"gen_ai.response.finish_reasons", object{"arrayValue": object{"values": []object{{"stringValue": r.FinishReason}}}}})
	}
	if ttft, ok := r.TTFT(); ok {
		attributes = append(attributes, seconds("gen_ai.response.time_to_first_chunk", ttft))
	}
	status := object{}
	if r.Error != nil {
		attributes = append(attributes, text("error.type", string(r.Error.Category)))
		status = object{"code": 2, "message": r.Error.Message}
	}
	return object{
		"traceId": identify(r.RootID, 16), "spanId": identify(r.RequestID, 8), "name": e.o.Operation + " " + e.o.Model, "kind": 3,
		"startTimeUnixNano": at(r.Sent), "endTimeUnixNano": at(r.End), "attributes": attributes, "status": status,
	}
}

// identify returns the last size bytes of a UUID in hexadecimal digits; of another text, of its hash.
func identify(id string, size int) string {
	digits := strings.ReplaceAll(id, "-", "")
	if b, err := hex.DecodeString(digits); err != nil || len(b) != 16 {
		sum := sha256.Sum256([]byte(id))
		digits = hex.EncodeToString(sum[:16])
	}
	return digits[len(digits)-2*size:]
}

// unixNano writes a time as nanoseconds since 1970.
func unixNano(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

// conventional are the names that the conventions for generative AI have for metrics, by their names in /metrics.
var conventional = map[string]string{
	"agentx_ttft": "gen_ai.client.operation.time_to_first_chunk", "agentx_request_latency": "gen_ai.client.operation.duration",
}

// metrics returns the metrics of /metrics, agentx_ttft as agentx.ttft, and some again under their conventional names.
func (e *Exporter) metrics(now time.Time) (list []object) {
	for _, f := range e.o.Figures() {
		if len(f.Metric) == 0 { // no value of the label yet
			continue
		}
		list = append(list, converted(strings.Replace(f.GetName(), "_", ".", 1), f, unixNano(e.began), unixNano(now), nil))
		if name, is := conventional[f.GetName()]; is {
			list = append(list, converted(name, f, unixNano(e.began), unixNano(now), e.common()))
		}
	}
	return list
}

// converted returns a family of /metrics as a metric of OTLP. start and now are nanoseconds since 1970.
func converted(name string, f *dto.MetricFamily, start, now string, attributes []attribute) object {
	var points []object
	for _, of := range f.GetMetric() {
		p := object{"startTimeUnixNano": start, "timeUnixNano": now, "attributes": attributes}
		for _, l := range of.GetLabel() {
			p["attributes"] = []attribute{text(l.GetName(), l.GetValue())}
		}
		if h := of.Histogram; h != nil {
			var bounds []float64
			var counts []string
			before := uint64(0)
			for _, b := range append(h.GetBucket(), &dto.Bucket{CumulativeCount: h.SampleCount}) {
				bounds, counts = append(bounds, b.GetUpperBound()), append(counts, strconv.FormatUint(b.GetCumulativeCount()-before, 10))
				before = b.GetCumulativeCount()
			}
			p["count"], p["sum"], p["bucketCounts"], p["explicitBounds"] = strconv.FormatUint(before, 10), h.GetSampleSum(), counts, bounds[:len(bounds)-1]
		} else {
			p["asDouble"] = of.GetCounter().GetValue() + of.GetGauge().GetValue() // it has one of the two
		}
		points = append(points, p)
	}
	m := object{"name": name, "description": f.GetHelp()}
	data := object{"dataPoints": points, "aggregationTemporality": 2} // since the run began
	switch f.GetType() {
	case dto.MetricType_HISTOGRAM:
		m["unit"], m["histogram"] = "s", data
	case dto.MetricType_COUNTER:
		data["isMonotonic"] = true
		m["sum"] = data
	default:
		m["gauge"] = object{"dataPoints": points}
	}
	return m
}
