package otlp

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/agentx/agentx/replay/measure"
)

type object = map[string]any

// attribute is a name with a value, as OTLP/JSON has it.
type attribute struct {
	Key   string `json:"key"`
	Value object `json:"value"`
}

func text(key, value string) attribute { return attribute{key, object{"stringValue": value}} }

func whole(key string, n int64) attribute {
	return attribute{key, object{"intValue": strconv.FormatInt(n, 10)}}
}

func seconds(key string, s measure.Lapse) attribute {
	return attribute{key, object{"doubleValue": s.Seconds()}}
}

// message returns a message of spans or metrics: kind is Spans or Metrics.
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

// identify returns the last bytes of a UUID in hexadecimal digits; of another text, those of its hash.
func identify(id string, size int) string {
	digits := strings.ReplaceAll(id, "-", "")
	if b, err := hex.DecodeString(digits); err != nil || len(b) != 16 {
		sum := sha256.Sum256([]byte(id))
		digits = hex.EncodeToString(sum[:16])
	}
	return digits[len(digits)-2*size:]
}

func unixNano(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

// conventional are the metrics that the conventions for generative AI have as well, by their names in /metrics.
var conventional = map[string]string{
	"agentx_ttft": "gen_ai.client.operation.time_to_first_chunk", "agentx_request_latency": "gen_ai.client.operation.duration",
}

// metrics returns the figures of the run: those of /metrics, agentx_ttft as agentx.ttft, and the conventional ones.
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

// converted returns a family of /metrics as a metric.
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
