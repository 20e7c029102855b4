package page

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"strconv"
)

// Missing is the whole number that is not known. It is NaN in the drawing code.
const Missing int64 = math.MinInt64

// maxWhole is the largest whole number of a column: four times it, the zigzag form of a difference, is one that JavaScript holds exactly.
const maxWhole = 1 << 51

// Column is a packed column of a table. Make one by [Floats], [Ints] or [Texts].
type Column struct {
	name, unit string
	rows       int
	as         encoding
	scale      float64  // numbers are divided by it; 0: they are as packed
	words      []string // of texts: the distinct ones, to which the packed numbers point
	packed     []byte
	err        error // a value cannot be packed
}

// encoding says how a column is packed, before base64.
type encoding string

const (
	doubles encoding = "doubles" // 8 bytes each, little-endian
	varints encoding = "varints" // LEB128 of 0 for a missing number, else of its zigzag form plus 1
	deltas  encoding = "deltas"  // the same of the difference to the known number before, at first 0
)

// scales are the divisors by which Floats tries to make whole numbers of its values: of counts, milliseconds, microseconds and
// nanoseconds in seconds.
var scales = [...]float64{1, 1e3, 1e6, 1e9}

// Floats packs numbers exactly: as whole numbers with a divisor where that is shorter and gives the same bits, which it does for
// seconds made of nanoseconds. NaN is a number that is not known.
func Floats(name, unit string, values []float64) Column {
	c := Column{name: name, unit: unit, rows: len(values)}
	for _, scale := range scales {
		whole, ok := wholeOf(values, scale)
		if !ok {
			continue
		}
		if c = Ints(name, unit, whole); len(c.packed) >= 8*len(values) {
			break
		}
		if c.scale = scale; scale == 1 {
			c.scale = 0
		}
		return c
	}
	c.as, c.packed = doubles, make([]byte, 0, 8*len(values))
	for _, v := range values {
		c.packed = binary.LittleEndian.AppendUint64(c.packed, math.Float64bits(v))
	}
	return c
}

// wholeOf returns the values times a scale where dividing again gives their bits. Negative zero has no whole number.
func wholeOf(values []float64, scale float64) ([]int64, bool) {
	whole := make([]int64, len(values))
	for i, v := range values {
		n := math.Round(v * scale)
		switch {
		case math.IsNaN(v):
			whole[i] = Missing
		case !(math.Abs(n) < maxWhole) || math.Float64bits(float64(int64(n))/scale) != math.Float64bits(v):
			return nil, false
		default:
			whole[i] = int64(n)
		}
	}
	return whole, true
}

// Ints packs whole numbers of at most 2^51, or Missing. It does not keep the values.
func Ints(name, unit string, values []int64) Column {
	c := Column{name: name, unit: unit, rows: len(values)}
	plain, different, last := 0, 0, int64(0) // bytes of the two ways of packing
	for i, v := range values {
		if v == Missing {
			plain, different = plain+1, different+1
			continue
		}
		if v > maxWhole || v < -maxWhole {
			return Column{name: name, err: fmt.Errorf("row %d is %d: a page holds whole numbers to 2^51", i, v)}
		}
		plain, different = plain+varintBytes(zigzag(v)+1), different+varintBytes(zigzag(v-last)+1)
		last = v
	}
	c.as, c.packed = deltas, make([]byte, 0, min(plain, different))
	if plain < different {
		c.as = varints
	}
	last = 0
	for _, v := range values {
		switch {
		case v == Missing:
			c.packed = append(c.packed, 0)
		case c.as == varints:
			c.packed = binary.AppendUvarint(c.packed, zigzag(v)+1)
		default:
			c.packed = binary.AppendUvarint(c.packed, zigzag(v-last)+1)
			last = v
		}
	}
	return c
}

// varintBytes returns how many bytes a number takes, of which each has 7 bits of it.
func varintBytes(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// zigzag maps 0, -1, 1, -2 to 0, 1, 2, 3.
func zigzag(v int64) uint64 { return uint64(v<<1) ^ uint64(v>>63) }

// Texts packs texts as a list of the distinct ones, in the order in which they first occur, and their numbers in it.
func Texts(name string, values []string) Column {
	numbers := map[string]int64{}
	var words []string
	codes := make([]int64, len(values))
	for i, v := range values {
		n, known := numbers[v]
		if !known {
			n = int64(len(words))
			numbers[v], words = n, append(words, v)
		}
		codes[i] = n
	}
	c := Ints(name, "", codes)
	c.words = append([]string{}, words...) // never nil: that makes it texts
	return c
}

// appendJSON appends the column as column.js unpacks it.
func (c *Column) appendJSON(to []byte) []byte {
	to = appendText(append(to, `{"name":`...), c.name)
	if c.unit != "" {
		to = appendText(append(to, `,"unit":`...), c.unit)
	}
	to = appendText(append(to, `,"as":`...), string(c.as))
	if c.scale != 0 {
		to = strconv.AppendFloat(append(to, `,"scale":`...), c.scale, 'f', -1, 64)
	}
	if c.words != nil {
		words, _ := json.Marshal(c.words) // of texts there is no error
		to = append(append(to, `,"words":`...), words...)
	}
	to = base64.StdEncoding.AppendEncode(append(to, `,"data":"`...), c.packed)
	return append(to, `"}`...)
}
