package chart

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/agentx/agentx/cmd/internal/report/page"
	"github.com/agentx/agentx/cmd/internal/simulate/hitcurve"
	"github.com/agentx/agentx/internal/durable"
)

// PageFile is the name of the page in a directory of results.
const PageFile = "hitcurve.html"

// Smooth is how many sizes a page wants of a curve of LRU, besides those that the user asked for.
const Smooth = 400

// Write writes the page of curves to a file, which appears whole and replaces an older one. Equal curves give equal bytes.
func Write(path, title string, curves []*Result) error {
	text, err := html(title, curves)
	if err != nil {
		return err
	}
	return durable.WriteFile(path, text)
}

// head is what the page has besides columns.
type head struct {
	Curves   []*Result         `json:"curves"`
	Policies []hitcurve.Policy `json:"policies"` // those that were computed
}

// html returns the text of the page.
func html(title string, curves []*Result) ([]byte, error) {
	if len(curves) == 0 {
		return nil, errors.New("hit curve: no curve")
	}
	h := head{Curves: curves, Policies: []hitcurve.Policy{}}
	for _, p := range hitcurve.Policies {
		if len(curves[0].Points) > 0 {
			if _, computed := curves[0].Points[0].Policies[p]; computed {
				h.Policies = append(h.Policies, p)
			}
		}
	}
	p := &page.Page{Kind: "hitcurve", Title: title, Head: h}
	for k, c := range curves {
		p.Tables = append(p.Tables, c.lines(k)...)
	}
	var text bytes.Buffer
	err := page.Write(&text, p)
	return text.Bytes(), err
}

// lines has a table for each policy: what it finds by size. That of LRU has the fine sizes too, from the least size of the points.
func (r *Result) lines(k int) (list []page.Table) {
	for _, policy := range hitcurve.Policies {
		var sizes, found []int64
		next, least := 0, int64(0)
		if len(r.Points) > 0 {
			least = r.Points[0].Blocks
		}
		add := func(size, tokens int64) { sizes, found = append(sizes, size), append(found, tokens) }
		for _, p := range r.Points {
			one, computed := p.Policies[policy]
			if !computed {
				continue
			}
			for policy == hitcurve.LRU && next < len(r.fine) && r.fine[next].Size <= p.Blocks {
				if size := r.fine[next].Size; size > least && size < p.Blocks {
					add(r.fine[next].Size, r.fine[next].Found)
				}
				next++
			}
			add(p.Blocks, one.SavedTokens)
		}
		for policy == hitcurve.LRU && len(sizes) > 0 && next < len(r.fine) {
			add(r.fine[next].Size, r.fine[next].Found)
			next++
		}
		if len(sizes) > 0 {
			list = append(list, page.Table{Name: fmt.Sprintf("%s.%d", policy, k), Columns: []page.Column{page.Ints("blocks", "", sizes), page.Ints("found", "tokens", found)}})
		}
	}
	return list
}
