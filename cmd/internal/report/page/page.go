package page

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"io/fs"
	"path"
	"strconv"
)

// Page is what is on a page.
type Page struct {
	Kind   string  // the function of the drawing code that draws it: run, compare, simulate
	Title  string  // of the window
	Head   any     // what is no table; becomes a JSON value
	Tables []Table // in any order; each name once
	Live   bool    // it may ask the server that it came from for more
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
	fmt.Fprintf(out, "</head>\n<body>\n<main id=\"page\"><noscript>This page draws its numbers with JavaScript.</noscript></main>\n"+
		"<script type=\"application/json\" id=\"data\">%s</script>\n<script>boot();</script>\n</body>\n</html>\n", data)
	return out.Flush()
}

// folders are those of js whose files a kind of page needs, besides the files of js itself, which are for all.
var folders = map[string][]string{"run": {"run"}, "compare": {"compare"}, "live": {"run", "live"}, "simulate": {"simulate"}, "simulate-compare": {"compare", "simulate-compare"}, "hitcurve": {"hitcurve"}}

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

// withoutComments leaves out the lines that are a comment alone, a fifth of the code. No such line is in a text of several lines:
// page_test.go.
func withoutComments(code []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(code) {
		if !bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("//")) {
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

// appendText appends a text as JSON. No text can end the script that it stands in.
func appendText(to []byte, text string) []byte {
	quoted, _ := json.Marshal(text) // of a text there is no error
	return append(to, quoted...)
}

// check reports every table that cannot be drawn.
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

// check reports columns of different lengths or of one name, and values that cannot be packed.
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
