package wire

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
)

// resolver caches the addresses of a host, so that a thousand lanes that start at once send one query to the name server.
type resolver struct {
	host   string
	lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
	token  chan struct{} // has one value: its holder may use the fields below
	addrs  []netip.Addr
	expiry time.Time

	latest atomic.Pointer[[]netip.Addr] // addrs, for those who do not wait; nil: there was no answer yet
}

// addressLife is how long an answer of the name server is used.
const addressLife = 300 * time.Second

func newResolver(host string) *resolver {
	r := &resolver{host: host, lookup: net.DefaultResolver.LookupNetIP, token: make(chan struct{}, 1)}
	r.token <- struct{}{}
	if a, err := netip.ParseAddr(host); err == nil {
		r.addrs, r.expiry = []netip.Addr{a}, time.Unix(1<<40, 0)
		r.latest.Store(&r.addrs)
	}
	return r
}

// known returns the addresses of the last answer, which may be old; nil: there was none.
func (r *resolver) known() []netip.Addr {
	if addrs := r.latest.Load(); addrs != nil {
		return *addrs
	}
	return nil
}

// addresses returns the addresses of the host: IPv4 first, each family in an order that does not change with the answers. It waits for a lookup that another goroutine makes.
func (r *resolver) addresses(ctx context.Context) ([]netip.Addr, error) {
	select {
	case <-r.token:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { r.token <- struct{}{} }()
	if time.Now().Before(r.expiry) {
		return r.addrs, nil
	}
	addrs, err := r.lookup(ctx, "ip", r.host)
	if err != nil {
		return nil, err
	}
	for i, a := range addrs {
		addrs[i] = a.Unmap()
	}
	slices.SortFunc(addrs, func(a, b netip.Addr) int { return cmp.Or(a.BitLen()-b.BitLen(), a.Compare(b)) })
	addrs = slices.Compact(addrs)
	r.addrs, r.expiry = addrs, time.Now().Add(addressLife)
	r.latest.Store(&addrs)
	return addrs, nil
}
