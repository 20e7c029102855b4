package measure

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// AddressCount is how many requests of the measured phase one address of a server got whose name has several.
type AddressCount struct {
	URL      int    `json:"url"` // position in the URLs of the run
	Address  string `json:"address"`
	Requests int    `json:"requests"`
}

// addresses count requests by the address that got them.
type addresses map[AddressCount]int

func (a *addresses) add(r *Record) {
	if r.Address == "" {
		return
	}
	if *a == nil {
		*a = addresses{}
	}
	(*a)[AddressCount{URL: r.server(), Address: r.Address}]++
}

// list returns the counts by URL and address; nil without any.
func (a addresses) list() (list []AddressCount) {
	for _, c := range slices.SortedFunc(maps.Keys(a), func(x, y AddressCount) int { return cmp.Or(x.URL-y.URL, cmp.Compare(x.Address, y.Address)) }) {
		n := a[c]
		c.Requests = n
		list = append(list, c)
	}
	return list
}

// maxAddresses is how many addresses a table shows.
const maxAddresses = 16

// addresses writes how many requests each address got, where there are several.
func (s *Summary) addresses(b *strings.Builder) {
	if len(s.Addresses) == 0 {
		return
	}
	var parts []string
	for k, c := range s.Addresses {
		if k == maxAddresses {
			parts = append(parts, fmt.Sprintf("and %d more", len(s.Addresses)-k))
			break
		}
		parts = append(parts, fmt.Sprintf("%s %d", c.Address, c.Requests))
	}
	row(b, "addresses", "requests each: %s", strings.Join(parts, ", "))
}
