package engine

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
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
	prefill        float64 // speed; at most 0, or 1: as it is
	decode         float64
	capacityTokens float64
}

// NewTiming returns the timing of an engine. table is nil for the polynomials.
func NewTiming(c Config, table *Table) Timing {
	return Timing{
		table: table, prefill: c.SpeedupRatio, decode: float64(c.SpeedupRatio * c.DecodeSpeedupRatio),
		capacityTokens: float64(c.Blocks) * float64(c.BlockSize),
	}
}

// prefillMS returns the milliseconds in which so many prompt tokens are computed, unscaled.
func (t *Timing) prefillMS(tokens float64) float64 {
	if tokens <= 0 {
		return 0
	}
	if t.table != nil {
		return max(t.table.prefillMS(tokens), 0)
	}
	square := float64(float64(4.209989e-07*tokens) * tokens) // each product is rounded: no fused multiply-add
	linear := float64(1.518344e-02 * tokens)
	return max(square+linear+16.50142, 0)
}

// decodeMS returns the milliseconds of one decode step that reads kv tokens, of requests with length tokens in all, unscaled.
func (t *Timing) decodeMS(kv, length, requests int) float64 {
	if requests == 0 {
		return 0
	}
	if t.table != nil {
		return max(t.table.decodeMS(float64(kv), float64(length/requests)), 1)
	}
	return decodePoly(min(1, float64(kv)/t.capacityTokens))
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

// Prefill returns the nanoseconds in which so many prompt tokens are computed.
func (t *Timing) Prefill(tokens int) int64 {
	return int64(min(quantise(t.prefillMS(float64(tokens)), t.prefill), longestPrefill))
}

// Decode returns the nanoseconds of one decode step.
func (t *Timing) Decode(kv, length, requests int) int64 {
	return int64(min(quantise(t.decodeMS(kv, length, requests), t.decode), longestDecode))
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

// Table is durations that were measured or computed elsewhere: doc/spec/simulate.md 4.2.
type Table struct {
	PrefillISL    []float64   `json:"prefill_isl"` // tokens of a pass
	PrefillTTFT   []float64   `json:"prefill_ttft_ms"`
	DecodeKV      []float64   `json:"decode_active_kv_tokens"`
	DecodeContext []float64   `json:"decode_context_length"` // mean length of the requests of a step
	DecodeITL     [][]float64 `json:"decode_itl"`            // milliseconds, by KV tokens, then context
}

// Validate returns an error that names the first array that cannot be used.
func (t *Table) Validate() error {
	for _, axis := range []struct {
		name   string
		values []float64
	}{{"prefill_isl", t.PrefillISL}, {"decode_active_kv_tokens", t.DecodeKV}, {"decode_context_length", t.DecodeContext}} {
		if err := checkAxis(axis.name, axis.values); err != nil {
			return err
		}
	}
	if err := checkValues("prefill_ttft_ms", t.PrefillTTFT, len(t.PrefillISL), "prefill_isl"); err != nil {
		return err
	}
	if len(t.DecodeITL) != len(t.DecodeKV) {
		return fmt.Errorf("decode_itl has %d rows, and decode_active_kv_tokens %d values: want as many", len(t.DecodeITL), len(t.DecodeKV))
	}
	for k, row := range t.DecodeITL {
		if err := checkValues(fmt.Sprintf("decode_itl[%d]", k), row, len(t.DecodeContext), "decode_context_length"); err != nil {
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

// prefillMS interpolates along the tokens of a pass, and extrapolates at both ends.
func (t *Table) prefillMS(tokens float64) float64 {
	k, share := place(t.PrefillISL, tokens)
	return between(t.PrefillTTFT, k, share)
}

// decodeMS interpolates along KV tokens and context, and extrapolates at all ends.
func (t *Table) decodeMS(kv, context float64) float64 {
	k, share := place(t.DecodeContext, context)
	row, along := place(t.DecodeKV, kv)
	low := between(t.DecodeITL[row], k, share)
	if row+1 == len(t.DecodeITL) {
		return low
	}
	return mix(low, between(t.DecodeITL[row+1], k, share), along)
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
	var rows []numbers
	flat := t.flat()
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		switch list := flat[key]; {
		case list != nil:
			var one numbers
			err = json.Unmarshal(keys[key], &one)
			*list = one
		case key == "decode_itl":
			err = json.Unmarshal(keys[key], &rows)
		default:
			return jsonobject.Unknown(key, jsonobject.Keys[Table]())
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	for _, row := range rows {
		t.DecodeITL = append(t.DecodeITL, row)
	}
	return nil
}

// flat returns the arrays of one dimension by their names.
func (t *Table) flat() map[string]*[]float64 {
	return map[string]*[]float64{
		"prefill_isl": &t.PrefillISL, "prefill_ttft_ms": &t.PrefillTTFT,
		"decode_active_kv_tokens": &t.DecodeKV, "decode_context_length": &t.DecodeContext,
	}
}

// readArchive reads the arrays of an .npz file. Arrays of other names are left alone.
func (t *Table) readArchive(data []byte) error {
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return err
	}
	flat := t.flat()
	for _, f := range archive.File {
		name := strings.TrimSuffix(f.Name, ".npy")
		list, wanted := flat[name]
		if !wanted && name != "decode_itl" {
			continue
		}
		values, shape, err := readMember(f)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		case wanted && len(shape) == 1:
			*list = values
		case !wanted && len(shape) == 2:
			for ; len(values) > 0 && shape[1] > 0; values = values[shape[1]:] {
				t.DecodeITL = append(t.DecodeITL, values[:shape[1]])
			}
		default:
			return fmt.Errorf("%s has %d dimensions: want 2 of decode_itl, 1 of the others", name, len(shape))
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
