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
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/internal/jsonobject"
	"github.com/agentx/agentx/internal/regular"
)

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
			return fmt.Errorf("%s has %d dimensions", name, len(shape))
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

var arrayHeader = regexp.MustCompile(`'descr': *'([^']*)', *'fortran_order': *(True|False), *'shape': *\(([0-9, ]*)\)`)

// readArray reads an array as numpy writes it: magic, version, length of the header, header, values.
func readArray(data []byte) (values []float64, shape []int, err error) {
	const magic = "\x93NUMPY"
	if len(data) < 12 || string(data[:6]) != magic {
		return nil, nil, fmt.Errorf("not a numpy array")
	}
	start, length := 10, int(binary.LittleEndian.Uint16(data[8:]))
	if data[6] > 1 {
		start, length = 12, int(binary.LittleEndian.Uint32(data[8:]))
	}
	if length > len(data)-start {
		return nil, nil, fmt.Errorf("the header is cut off")
	}
	m := arrayHeader.FindSubmatch(data[start : start+length])
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
			return nil, nil, fmt.Errorf("shape (%s) is too large", m[3])
		}
		shape, count = append(shape, n), max(count*n, 1)
	}
	values, err = readValues(data[start+length:], string(m[1]))
	if total := product(shape); err == nil && len(values) != total {
		err = fmt.Errorf("%d values, shape (%s) wants %d", len(values), m[3], total)
	}
	return values, shape, err
}

func product(shape []int) int {
	n := 1
	for _, side := range shape {
		n *= side
	}
	return n
}

// readValues reads numbers of a type of numpy.
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
