package engine

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/agentx/agentx/internal/jsonobject"
	"github.com/agentx/agentx/internal/lazyregexp"
	"github.com/agentx/agentx/internal/regular"
)

// Timing says how long the parts of a pass take: doc/spec/simulate.md 4. The zero value is the default polynomials, which
// belong to no model and no GPU, at speed 1.
type Timing struct {
	table          *Table
	formula        *Formula
	prefill        float64 // speed; at most 0, or 1: as it is
	decode         float64
	capacityTokens float64
	bounded        bool // passes may lie outside of what was measured
}

// NewTiming returns the timing of an engine. table is nil for the polynomials, and for the formula that the configuration has.
func NewTiming(c Config, table *Table) Timing {
	return Timing{
		table: table, formula: c.Timing.Formula, prefill: c.SpeedupRatio, decode: float64(c.SpeedupRatio * c.DecodeSpeedupRatio),
		capacityTokens: float64(c.Blocks) * float64(c.BlockSize),
		bounded:        table != nil || c.Timing.Formula != nil && c.Timing.Formula.Seen != nil,
	}
}

// Work is what a pass computes.
type Work struct {
	New      int // prompt tokens computed
	Prefix   int // tokens of the same prompts that were known before
	Attended int // pairs of a prompt token computed and a token that it sees, itself included
	Batch    int // requests of the decode step
	KV       int // tokens that the decode step reads

	charged int // T of doc/spec/simulate.md 4.1
	length  int // known tokens of the batch
}

// attended returns the pairs of a chunk of a prompt behind a prefix.
func attended(chunk, prefix int) int { return chunk*prefix + chunk*(chunk+1)/2 }

// prompt returns the work of so many tokens of one prompt without a known prefix.
func prompt(tokens int) Work {
	return Work{New: tokens, Attended: attended(tokens, 0), charged: tokens}
}

// meanPrefix returns the prefix of one prompt whose work is that of all prompts of the pass.
func (w *Work) meanPrefix() float64 {
	return max(float64(w.Attended)/float64(w.New)-float64(w.New+1)/2, 0)
}

// prefillMS returns the milliseconds in which the prompt tokens of a pass are computed, unscaled.
func (t *Timing) prefillMS(w *Work) float64 {
	tokens := float64(w.charged)
	switch {
	case w.charged <= 0:
		return 0
	case t.formula != nil:
		one := *w
		one.Batch, one.KV = 0, 0
		return t.formula.ms(&one)
	case t.table != nil:
		return max(t.table.prefillMS(w), 0)
	}
	square := float64(float64(4.209989e-07*tokens) * tokens) // each product is rounded: no fused multiply-add
	linear := float64(1.518344e-02 * tokens)
	return max(square+linear+16.50142, 0)
}

// decodeMS returns the milliseconds of a decode step that reads kv tokens, of requests with length tokens in all, unscaled.
func (t *Timing) decodeMS(kv, length, requests int) float64 {
	switch {
	case requests == 0:
		return 0
	case t.formula == nil && t.table == nil:
		return decodePoly(min(1, float64(kv)/t.capacityTokens))
	case t.formula != nil:
		return t.formula.ms(&Work{Batch: requests, KV: kv})
	}
	return max(t.table.decodeMS(float64(kv), float64(length), float64(requests)), 1)
}

// decodePoly returns the milliseconds of a step at a utilisation of the pool.
func decodePoly(p float64) float64 {
	square := float64(float64(-25.74*p) * p)
	linear := float64(54.01 * p)
	return max(square+linear+5.74, 1)
}

// The longest parts of a pass, about two years and six days: so many passes as a stretch has fit an int64 behind any instant of a run.
const (
	longestPrefill = 1 << 56
	longestDecode  = 1 << 49
)

// Prefill returns the nanoseconds in which so many tokens of one prompt are computed, without a known prefix.
func (t *Timing) Prefill(tokens int) int64 {
	w := prompt(tokens)
	return t.prompts(&w)
}

// prompts returns the nanoseconds in which the prompt tokens of a pass are computed.
func (t *Timing) prompts(w *Work) int64 {
	return int64(min(quantise(t.prefillMS(w), t.prefill), longestPrefill))
}

// Decode returns the nanoseconds of one decode step, which reads kv tokens, of requests with length tokens in all.
func (t *Timing) Decode(kv, length, requests int) int64 {
	return int64(min(quantise(t.decodeMS(kv, length, requests), t.decode), longestDecode))
}

// pass returns the nanoseconds of a pass.
func (t *Timing) pass(w *Work) int64 {
	if t.formula != nil && w.New > 0 { // one pass, which reads the weights once
		return int64(min(quantise(t.formula.ms(w), t.prefill), longestPrefill))
	}
	return t.prompts(w) + t.Decode(w.KV, w.length, w.Batch)
}

// outside reports whether a pass lies outside the durations that were measured, so that its own is extrapolated.
func (t *Timing) outside(w *Work) bool {
	switch {
	case !t.bounded:
		return false
	case t.formula != nil:
		return t.formula.Seen.exceeded(w)
	}
	return t.table.outside(w)
}

// Range says in words which passes were measured; "" where every pass counts as measured.
func (t *Timing) Range() string {
	switch {
	case !t.bounded:
		return ""
	case t.formula != nil:
		return t.formula.Seen.String()
	}
	return t.table.String()
}

// Formula is the duration of a pass from a few constants, in milliseconds: doc/spec/simulate.md 4.4. Nothing to compute takes no time.
type Formula struct {
	Pass      float64 `json:"pass_ms"`               // of every pass
	Weights   float64 `json:"weights_ms"`            // reading the weights, while computing is faster
	Token     float64 `json:"token_ms"`              // computing a token, its attention apart
	Attention float64 `json:"attention_ms"`          // of a token computed to a token that it sees
	KV        float64 `json:"kv_token_ms"`           // reading a token of the prefix cache, or of a request that decodes
	Sequence  float64 `json:"sequence_ms,omitempty"` // of each request that gets a token: its logits, sampling, text
	Request   float64 `json:"request_ms,omitempty"`  // from the arrival of a request until the scheduler has it, which no pass waits for
	Seen      *Seen   `json:"seen,omitempty"`        // nil: no pass counts as extrapolated
}

// ms returns the milliseconds of a pass. Each product is rounded: no fused multiply-add.
func (f *Formula) ms(w *Work) float64 {
	if w.New+w.Batch == 0 {
		return 0
	}
	compute := max(f.Weights, float64(f.Token*float64(w.New+w.Batch)))
	return f.Pass + compute + float64(f.Attention*float64(w.Attended)) + float64(f.KV*float64(w.KV+w.Prefix)) + float64(f.Sequence*float64(w.Batch))
}

// Validate returns an error about the first constant that is not a finite number of at least 0.
func (f *Formula) Validate() error {
	for _, one := range []struct {
		name  string
		value float64
	}{{"pass_ms", f.Pass}, {"weights_ms", f.Weights}, {"token_ms", f.Token}, {"attention_ms", f.Attention}, {"kv_token_ms", f.KV}, {"sequence_ms", f.Sequence}, {"request_ms", f.Request}} {
		if !(one.value >= 0) || math.IsInf(one.value, 0) {
			return fmt.Errorf("timing: %s %g: want a finite number of at least 0", one.name, one.value)
		}
	}
	return nil
}

// Frontend returns the nanoseconds from the arrival of a request until the scheduler has it: doc/spec/simulate.md 4.4.
func (t *Timing) Frontend() int64 {
	if t.formula == nil {
		return 0
	}
	return int64(min(quantise(t.formula.Request, 1), longestDecode))
}

// Seen is the most that any pass had of those that constants were fitted to.
type Seen struct {
	New    int `json:"new_tokens"`
	Prefix int `json:"prefix_tokens"` // of one prompt whose work is that of the pass
	Batch  int `json:"batch"`
	KV     int `json:"kv_tokens"`
}

// Add raises the bounds to a pass.
func (s *Seen) Add(w *Work) {
	s.New, s.Batch, s.KV = max(s.New, w.New), max(s.Batch, w.Batch), max(s.KV, w.KV)
	if w.New > 0 {
		s.Prefix = max(s.Prefix, int(w.meanPrefix()))
	}
}

// exceeded reports whether a pass has more than that by a quarter.
func (s *Seen) exceeded(w *Work) bool {
	beyond := func(value float64, bound int) bool { return 4*value > 5*float64(bound) }
	return beyond(float64(w.New), s.New) || w.New > 0 && beyond(w.meanPrefix(), s.Prefix) ||
		beyond(float64(w.Batch), s.Batch) || beyond(float64(w.KV), s.KV)
}

func (s *Seen) String() string {
	return fmt.Sprintf("at most %d new tokens, %d prefix tokens, %d requests that decode with %d tokens", s.New, s.Prefix, s.Batch, s.KV)
}

// quantise rounds milliseconds to nanoseconds, and those at a speed again: doc/spec/simulate.md 4.3.
func quantise(ms, speed float64) float64 {
	ns := math.RoundToEven(float64(ms/1000) * 1e9)
	if speed > 0 && speed != 1 {
		ns = math.RoundToEven(float64(float64(ns/1e9)/speed) * 1e9)
	}
	return ns
}

// charge returns T: the prompt tokens that a pass is charged for, of n requests whose chunks and prefixes have these sums.
func charge(n, chunks, prefixes int) int {
	if n == 0 {
		return 0
	}
	return n * ((prefixes+chunks)/n - prefixes/n)
}

// Table is durations that were measured or computed elsewhere, in milliseconds: doc/spec/simulate.md 4.2. Those of prefill are by tokens,
// or by tokens and prefix; those of decode by KV tokens and context, or by batch and context.
type Table struct {
	PrefillISL    []float64   `json:"prefill_isl"` // tokens of a pass
	PrefillTTFT   []float64   `json:"prefill_ttft_ms,omitempty"`
	PrefillPrefix []float64   `json:"prefill_prefix_tokens,omitempty"`
	PrefillMS     [][]float64 `json:"prefill_ms,omitempty"` // by tokens, then prefix
	DecodeKV      []float64   `json:"decode_active_kv_tokens,omitempty"`
	DecodeContext []float64   `json:"decode_context_length"` // mean length of the requests of a step
	DecodeITL     [][]float64 `json:"decode_itl,omitempty"`  // by KV tokens, then context
	DecodeBatch   []float64   `json:"decode_batch,omitempty"`
	DecodeMS      [][]float64 `json:"decode_ms,omitempty"` // by batch, then context
}

// Validate returns an error that names the first array that cannot be used.
func (t *Table) Validate() error {
	prefix, batch := len(t.PrefillPrefix)+len(t.PrefillMS) > 0, len(t.DecodeBatch)+len(t.DecodeMS) > 0
	switch {
	case prefix && len(t.PrefillTTFT) > 0:
		return errors.New("prefill_ttft_ms beside prefill_prefix_tokens and prefill_ms: leave it out")
	case batch && len(t.DecodeKV)+len(t.DecodeITL) > 0:
		return errors.New("decode_active_kv_tokens and decode_itl beside decode_batch and decode_ms: leave them out")
	}
	for _, axis := range []struct {
		name   string
		values []float64
		wanted bool
	}{
		{"prefill_isl", t.PrefillISL, true}, {"prefill_prefix_tokens", t.PrefillPrefix, prefix},
		{"decode_active_kv_tokens", t.DecodeKV, !batch}, {"decode_batch", t.DecodeBatch, batch}, {"decode_context_length", t.DecodeContext, true},
	} {
		if axis.wanted {
			if err := checkAxis(axis.name, axis.values); err != nil {
				return err
			}
		}
	}
	if prefix {
		if err := checkGrid("prefill_ms", t.PrefillMS, len(t.PrefillISL), "prefill_isl", len(t.PrefillPrefix), "prefill_prefix_tokens"); err != nil {
			return err
		}
	} else if err := checkValues("prefill_ttft_ms", t.PrefillTTFT, len(t.PrefillISL), "prefill_isl"); err != nil {
		return err
	}
	if batch {
		return checkGrid("decode_ms", t.DecodeMS, len(t.DecodeBatch), "decode_batch", len(t.DecodeContext), "decode_context_length")
	}
	return checkGrid("decode_itl", t.DecodeITL, len(t.DecodeKV), "decode_active_kv_tokens", len(t.DecodeContext), "decode_context_length")
}

// checkGrid returns an error unless a grid has a finite value for each pair of values of its axes.
func checkGrid(name string, grid [][]float64, rows int, down string, columns int, across string) error {
	if len(grid) != rows {
		return fmt.Errorf("%s has %d rows, and %s %d values: want as many", name, len(grid), down, rows)
	}
	for k, row := range grid {
		if err := checkValues(fmt.Sprintf("%s[%d]", name, k), row, columns, across); err != nil {
			return err
		}
	}
	return nil
}

// checkAxis returns an error unless an axis has finite values that rise.
func checkAxis(name string, values []float64) error {
	if len(values) == 0 {
		return fmt.Errorf("%s has no values", name)
	}
	for k, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%s[%d] is %g: want a finite number", name, k, v)
		}
		if k > 0 && v <= values[k-1] {
			return fmt.Errorf("%s[%d] is %g after %g: want rising values", name, k, v, values[k-1])
		}
	}
	return nil
}

// checkValues returns an error unless an array has a finite value for each value of its axis.
func checkValues(name string, values []float64, want int, axis string) error {
	if len(values) != want {
		return fmt.Errorf("%s has %d values, and %s %d: want as many", name, len(values), axis, want)
	}
	for k, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%s[%d] is %g: want a finite number", name, k, v)
		}
	}
	return nil
}

// prefillMS interpolates along the tokens of a pass and the prefix of their prompts, and extrapolates at all ends.
func (t *Table) prefillMS(w *Work) float64 {
	if t.PrefillMS != nil {
		return at(t.PrefillISL, t.PrefillPrefix, t.PrefillMS, float64(w.New), w.meanPrefix())
	}
	k, share := place(t.PrefillISL, float64(w.charged))
	return between(t.PrefillTTFT, k, share)
}

// decodeMS interpolates along KV tokens, or the batch, and context, and extrapolates at all ends.
func (t *Table) decodeMS(kv, length, batch float64) float64 {
	if t.DecodeMS != nil {
		return at(t.DecodeBatch, t.DecodeContext, t.DecodeMS, batch, kv/batch)
	}
	return at(t.DecodeKV, t.DecodeContext, t.DecodeITL, kv, math.Floor(length/batch))
}

// outside reports whether a pass lies outside the axes.
func (t *Table) outside(w *Work) bool {
	beyond := func(axis []float64, x float64) bool { return len(axis) > 0 && (x < axis[0] || x > axis[len(axis)-1]) }
	return w.New > 0 && (beyond(t.PrefillISL, float64(w.New)) || beyond(t.PrefillPrefix, w.meanPrefix())) ||
		w.Batch > 0 && (beyond(t.DecodeKV, float64(w.KV)) || beyond(t.DecodeBatch, float64(w.Batch)) || beyond(t.DecodeContext, float64(w.length/w.Batch)))
}

// String says what the axes span.
func (t *Table) String() string {
	var list []string
	span := func(axis []float64, of string) {
		if len(axis) > 0 {
			list = append(list, fmt.Sprintf("%g to %g %s", axis[0], axis[len(axis)-1], of))
		}
	}
	span(t.PrefillISL, "new tokens")
	span(t.PrefillPrefix, "prefix tokens")
	span(t.DecodeBatch, "requests that decode")
	span(t.DecodeKV, "KV tokens that decode reads")
	span(t.DecodeContext, "of them a request")
	return strings.Join(list, ", ")
}

// at returns the value of a grid at a place of its two axes.
func at(down, across []float64, grid [][]float64, x, y float64) float64 {
	k, share := place(across, y)
	row, along := place(down, x)
	low := between(grid[row], k, share)
	if row+1 == len(grid) {
		return low
	}
	return mix(low, between(grid[row+1], k, share), along)
}

// place returns the value of an axis from which on x lies, and which share of the way to the next one x is. Behind the ends it
// goes on from the last two values. An axis of one value has no way to go.
func place(axis []float64, x float64) (k int, share float64) {
	if len(axis) == 1 {
		return 0, 0
	}
	k = min(max(sort.SearchFloat64s(axis, x)-1, 0), len(axis)-2)
	return k, (x - axis[k]) / (axis[k+1] - axis[k])
}

// between returns the value a share of the way from value k to the next one.
func between(values []float64, k int, share float64) float64 {
	if len(values) == 1 {
		return values[0]
	}
	return mix(values[k], values[k+1], share)
}

// mix is rounded after the product: no fused multiply-add.
func mix(a, b, share float64) float64 { return a + float64((b-a)*share) }

// maxTable is how many bytes a file of a table, and what is packed in it, may have.
const maxTable = 64 << 20

// ReadTable reads a table of durations: an .npz file of numpy, or JSON with the same names.
func ReadTable(path string) (*Table, error) {
	data, err := regular.Read(path, maxTable)
	if err != nil {
		return nil, err
	}
	t := &Table{}
	if bytes.HasPrefix(data, []byte("PK")) {
		err = t.readArchive(data)
	} else {
		err = t.readObject(data)
	}
	if err == nil {
		err = t.Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// numbers is an array without holes.
type numbers []float64

// UnmarshalJSON refuses null, which encoding/json takes for 0.
func (n *numbers) UnmarshalJSON(data []byte) error {
	var list []*float64
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	for k, v := range list {
		if v == nil {
			return fmt.Errorf("value %d of %.60s is null: want a number", k, data)
		}
		*n = append(*n, *v)
	}
	return nil
}

// readObject reads the arrays of a JSON object.
func (t *Table) readObject(data []byte) error {
	keys, err := jsonobject.Members(data)
	if err != nil {
		return err
	}
	flat, grids := t.flat(), t.grids()
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		switch list := flat[key]; {
		case list != nil:
			var one numbers
			err = json.Unmarshal(keys[key], &one)
			*list = one
		case grids[key] != nil:
			var rows []numbers
			err = json.Unmarshal(keys[key], &rows)
			for _, row := range rows {
				*grids[key] = append(*grids[key], row)
			}
		default:
			return jsonobject.Unknown(key, jsonobject.Keys[Table]())
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

// flat returns the arrays of one dimension by their names.
func (t *Table) flat() map[string]*[]float64 {
	return map[string]*[]float64{
		"prefill_isl": &t.PrefillISL, "prefill_ttft_ms": &t.PrefillTTFT, "prefill_prefix_tokens": &t.PrefillPrefix,
		"decode_active_kv_tokens": &t.DecodeKV, "decode_context_length": &t.DecodeContext, "decode_batch": &t.DecodeBatch,
	}
}

// grids returns the arrays of two dimensions by their names.
func (t *Table) grids() map[string]*[][]float64 {
	return map[string]*[][]float64{"prefill_ms": &t.PrefillMS, "decode_itl": &t.DecodeITL, "decode_ms": &t.DecodeMS}
}

// readArchive reads the arrays of an .npz file. Arrays of other names are left alone.
func (t *Table) readArchive(data []byte) error {
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return err
	}
	flat, grids := t.flat(), t.grids()
	for _, f := range archive.File {
		name := strings.TrimSuffix(f.Name, ".npy")
		list, grid := flat[name], grids[name]
		if list == nil && grid == nil {
			continue
		}
		values, shape, err := readMember(f)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		case list != nil && len(shape) == 1:
			*list = values
		case grid != nil && len(shape) == 2:
			for ; len(values) > 0 && shape[1] > 0; values = values[shape[1]:] {
				*grid = append(*grid, values[:shape[1]])
			}
		default:
			return fmt.Errorf("%s has %d dimensions: want 2 of prefill_ms, decode_itl and decode_ms, 1 of the others", name, len(shape))
		}
	}
	return nil
}

// readMember reads one array of numbers in NumPy's format from an archive, as a flat list with its dimensions.
func readMember(f *zip.File) (values []float64, shape []int, err error) {
	r, err := f.Open()
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, maxTable+1))
	if err != nil {
		return nil, nil, err
	}
	if len(data) > maxTable {
		return nil, nil, fmt.Errorf("more than %d bytes", maxTable)
	}
	return readArray(data)
}

var arrayHeader = lazyregexp.New(`'descr': *'([^']*)', *'fortran_order': *(True|False), *'shape': *\(([0-9, ]*)\)`)

// readArray reads an array as numpy writes it: magic, version, length of the header, header, values.
func readArray(data []byte) (values []float64, shape []int, err error) {
	const magic = "\x93NUMPY"
	if len(data) < 12 || string(data[:6]) != magic {
		return nil, nil, fmt.Errorf("not an array in numpy's format .npy")
	}
	start, length := 10, int(binary.LittleEndian.Uint16(data[8:]))
	if data[6] > 1 {
		start, length = 12, int(binary.LittleEndian.Uint32(data[8:]))
	}
	if length > len(data)-start {
		return nil, nil, fmt.Errorf("the header of the array is cut off")
	}
	m := arrayHeader().FindSubmatch(data[start : start+length])
	if m == nil || string(m[2]) == "True" {
		return nil, nil, fmt.Errorf("header %q: want an array in C order", data[start:start+length])
	}
	count := 1
	for _, text := range strings.Split(string(m[3]), ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n > maxTable/count {
			return nil, nil, fmt.Errorf("shape (%s) is not one of at most %d bytes", m[3], maxTable)
		}
		shape, count = append(shape, n), max(count*n, 1)
	}
	values, err = readValues(data[start+length:], string(m[1]))
	if total := product(shape); err == nil && len(values) != total {
		err = fmt.Errorf("the array has %d values, and its shape (%s) %d", len(values), m[3], total)
	}
	return values, shape, err
}

// product returns how many values an array of this shape has.
func product(shape []int) int {
	n := 1
	for _, side := range shape {
		n *= side
	}
	return n
}

// readValues reads little-endian numbers of a type by numpy's name, such as <f8.
func readValues(data []byte, kind string) (values []float64, err error) {
	read := map[string]func([]byte) float64{
		"<f8": func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) },
		"<f4": func(b []byte) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))) },
		"<i8": func(b []byte) float64 { return float64(int64(binary.LittleEndian.Uint64(b))) },
		"<i4": func(b []byte) float64 { return float64(int32(binary.LittleEndian.Uint32(b))) },
	}[kind]
	if read == nil {
		return nil, fmt.Errorf("type %q: want float64, float32, int64 or int32, little-endian", kind)
	}
	size := int(kind[2] - '0')
	if len(data)%size != 0 {
		return nil, fmt.Errorf("%d bytes are not a whole number of values of %d bytes", len(data), size)
	}
	for ; len(data) > 0; data = data[size:] {
		values = append(values, read(data))
	}
	return values, nil
}
