// Package page writes a page of charts as one HTML file that opens from disk, without a network. It knows tables of numbers and
// texts, not requests: who calls it says what they mean.
//
// A [Page] has a kind, a head and tables. [Write] packs the columns, and adds the style and the drawing code, without comments: the files of js,
// and of those of its folders that the kind needs. Equal pages give equal bytes.
//
// The drawing code is plain JavaScript, one noun a file, each file an element script of its own: what one declares, all see. A kind of
// page is a function that a file puts into the object pages: pages.run draws a Page whose kind is run. It gets the page with its columns
// unpacked (column.js) and the element that is to hold everything. It makes one TimeRange (time.js), and a Chart (chart.js) of marks:
// lines, points, areas, cells. All charts and tables that watch the TimeRange follow its selection.
//
// Nothing of the data can become markup or script: it is JSON in which <, > and & are escaped, and the drawing code makes elements
// and sets their text, never markup.
package page

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"io/fs"
	"math"
	"math/bits"
	"path"
	"strconv"
	"strings"
)

// Page is what is on a page.
type Page struct {
	Kind   string  // the function of the drawing code that draws it: run, compare, simulate
	Title  string  // of the window
	Head   any     // what is no table; becomes a JSON value
	Tables []Table // in any order; each name once
	Live   bool    // it may ask the server that it came from for more
	Plain  Plain   // what a reader without JavaScript sees
}

// Origin says what a page is of: names and values, and the command that made it. Only the caller knows it, so that equal callers make equal pages.
type Origin struct {
	Facts   [][2]string `json:"facts"`
	Command string      `json:"command"` // for a shell
}

// Plain are lines of text, and tables below them, the first row of each its head.
type Plain struct {
	Lines  []string
	Tables [][][]string
}

// write writes the lines and tables as markup. Texts stay texts.
func (p *Plain) write(out io.Writer) {
	escape := func(text string) string {
		return strings.NewReplacer("\u2028", " ", "\u2029", " ").Replace(html.EscapeString(text))
	}
	for _, line := range append([]string{"The charts of this page need JavaScript."}, p.Lines...) {
		fmt.Fprintf(out, "<p>%s</p>\n", escape(line))
	}
	for _, rows := range p.Tables {
		fmt.Fprint(out, "<table>\n")
		for k, row := range rows {
			cell := "td"
			if k == 0 {
				cell = "th"
			}
			fmt.Fprint(out, "<tr>")
			for _, text := range row {
				fmt.Fprintf(out, "<%s>%s</%s>", cell, escape(text), cell)
			}
			fmt.Fprint(out, "</tr>\n")
		}
		fmt.Fprint(out, "</table>\n")
	}
}

// Table has columns of the same length. The order of its rows is kept.
type Table struct {
	Name    string
	Columns []Column
}

//go:embed js page.css
var sources embed.FS

// The policies under which a page works: nothing but what is in it, and of a live one its own server.
const (
	policy     = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
	livePolicy = policy + "; connect-src 'self'"
)

// Policy returns the Content-Security-Policy under which the page works. The page names it itself.
func (p *Page) Policy() string {
	if p.Live {
		return livePolicy
	}
	return policy
}

// Write writes the page as one HTML file.
func Write(w io.Writer, p *Page) error {
	data, err := p.AppendJSON(nil)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"+
		"<meta http-equiv=\"Content-Security-Policy\" content=\"%s\">\n"+
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>%s</title>\n", p.Policy(), html.EscapeString(p.Title))
	if err := writeSources(out, p.Kind); err != nil {
		return err
	}
	fmt.Fprint(out, "</head>\n<body>\n<main id=\"page\"><noscript>\n")
	p.Plain.write(out)
	fmt.Fprintf(out, "</noscript></main>\n<script type=\"application/json\" id=\"data\">%s</script>\n<script>boot();</script>\n</body>\n</html>\n", data)
	return out.Flush()
}

// folders are the folders of js that a kind of page needs. The files of js itself are on every page.
var folders = map[string][]string{"run": {"run"}, "compare": {"compare"}, "live": {"run", "live"}, "simulate": {"simulate"}, "simulate-compare": {"compare", "simulate-compare"}, "hitcurve": {"hitcurve"}, "index": {"index"}}

// writeSources writes the style, and the drawing code of a kind, a script a file.
func writeSources(out *bufio.Writer, kind string) error {
	style, err := sources.ReadFile("page.css")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "<style>\n%s</style>\n", style)
	for _, folder := range append([]string{"."}, folders[kind]...) {
		files, err := fs.Glob(sources, path.Join("js", folder, "*.js"))
		if err != nil {
			return err
		}
		for _, name := range files {
			code, err := sources.ReadFile(name)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "<script>\n%s</script>\n", withoutComments(code))
		}
	}
	return nil
}

// withoutComments leaves out lines that are empty or only a comment, a fifth of the code. page_test.go checks that no string of several lines has such a
// line.
func withoutComments(code []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(code) {
		if text := bytes.TrimLeft(line, " "); string(text) != "\n" && !bytes.HasPrefix(text, []byte("//")) {
			kept = append(kept, line...)
		}
	}
	return kept
}

// AppendJSON appends the data of the page, with packed columns, as the drawing code unpacks it.
func (p *Page) AppendJSON(to []byte) ([]byte, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	head := p.Head
	if head == nil {
		head = struct{}{}
	}
	text, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	to = appendText(append(to, `{"kind":`...), p.Kind)
	to = appendText(append(to, `,"title":`...), p.Title)
	to = append(append(to, `,"head":`...), text...)
	to = append(to, `,"tables":[`...)
	for k := range p.Tables {
		if k > 0 {
			to = append(to, ',')
		}
		to = p.Tables[k].appendJSON(to)
	}
	return append(to, "]}"...), nil
}

// appendText appends a text as JSON, in which <, > and & are escaped, so that it cannot end the script around it.
func appendText(to []byte, text string) []byte {
	quoted, _ := json.Marshal(text) // of a text there is no error
	return append(to, quoted...)
}

// check returns the errors of all tables that cannot be drawn.
func (p *Page) check() error {
	var errs []error
	tables := map[string]bool{}
	for _, t := range p.Tables {
		if tables[t.Name] {
			errs = append(errs, fmt.Errorf("page: two tables %q", t.Name))
		}
		tables[t.Name] = true
		errs = append(errs, t.check())
	}
	return errors.Join(errs...)
}

// check returns errors about columns of different lengths, columns of the same name, and values that cannot be packed.
func (t *Table) check() error {
	var errs []error
	columns := map[string]bool{}
	for _, c := range t.Columns {
		switch {
		case c.err != nil:
			errs = append(errs, fmt.Errorf("page: table %q, column %q: %w", t.Name, c.name, c.err))
		case columns[c.name]:
			errs = append(errs, fmt.Errorf("page: table %q has two columns %q", t.Name, c.name))
		case c.rows != t.Columns[0].rows:
			errs = append(errs, fmt.Errorf("page: table %q, column %q has %d rows, column %q has %d", t.Name, c.name, c.rows, t.Columns[0].name, t.Columns[0].rows))
		}
		columns[c.name] = true
	}
	return errors.Join(errs...)
}

// appendJSON appends the table with its packed columns.
func (t *Table) appendJSON(to []byte) []byte {
	rows := 0
	if len(t.Columns) > 0 {
		rows = t.Columns[0].rows
	}
	to = appendText(append(to, `{"name":`...), t.Name)
	to = strconv.AppendInt(append(to, `,"rows":`...), int64(rows), 10)
	to = append(to, `,"columns":[`...)
	for k := range t.Columns {
		if k > 0 {
			to = append(to, ',')
		}
		to = t.Columns[k].appendJSON(to)
	}
	return append(to, "]}"...)
}

// Missing stands for a whole number that is not known. The drawing code gets NaN.
const Missing int64 = math.MinInt64

// maxWhole is the largest whole number of a column. Four times it, the largest zigzag form of a difference, is exact in JavaScript.
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
	deltas  encoding = "deltas"  // as varints, of the difference to the known number before, at first to 0
)

// scales are the factors by which Floats tries to make whole numbers of its values: counts, milliseconds, microseconds or nanoseconds in seconds.
var scales = [...]float64{1, 1e3, 1e6, 1e9}

// Floats packs numbers exactly: as whole numbers with a divisor if that is shorter and gives the same bits, as it does for seconds made of
// nanoseconds. NaN is a number that is not known.
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

// wholeOf returns the values times a scale as whole numbers; false if dividing by the scale does not give the same bits, as of negative zero.
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

// varintBytes returns how many bytes a number takes in LEB128.
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

// appendJSON appends the column in the form that column.js unpacks.
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
