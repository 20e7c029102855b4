package wire

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Route keeps requests at one of the addresses of a server whose name has several. Routes take the addresses in turn, by their numbers. One
// whose address takes no connection goes on at the next that does, and stays there. All methods may be called by many goroutines at once.
type Route struct {
	number int

	mu      sync.Mutex
	addr    netip.Addr // invalid: not chosen yet
	text    string     // of addr
	several bool       // the server had other addresses when addr was chosen
}

// NewRoute returns a route by its number, which is not negative.
func NewRoute(number int) *Route { return &Route{number: number} }

// address returns the address of the route, which it chooses of some if it has none yet; "": there is no choice. Nil is no route.
func (r *Route) address(known func() []netip.Addr) string {
	if r == nil {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.addr.IsValid() {
		r.choose(known())
	}
	if !r.several {
		return ""
	}
	return r.text
}

// choose chooses an address, if that is not done and there are some. The caller holds the lock. Addresses of the second family are only
// for when those of the first take no connection: they are often the same machines, or cannot be reached.
func (r *Route) choose(addrs []netip.Addr) {
	if r.addr.IsValid() || len(addrs) == 0 {
		return
	}
	n := 0
	for n < len(addrs) && addrs[n].BitLen() == addrs[0].BitLen() {
		n++
	}
	r.several = n > 1
	r.set(addrs[r.number%n])
}

func (r *Route) set(a netip.Addr) { r.addr, r.text = a, a.String() }

// order returns the addresses, of which there is one or more, in the order in which they are tried: that of the route first, those behind it next.
func (r *Route) order(addrs []netip.Addr) []netip.Addr {
	if r == nil {
		return addrs
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.choose(addrs)
	k := slices.Index(addrs, r.addr)
	if k < 0 { // the name server does not name it any more
		return append([]netip.Addr{r.addr}, addrs...)
	}
	return slices.Concat(addrs[k:], addrs[:k])
}

// stay makes an address that has taken a connection that of the route, and returns it as address does.
func (r *Route) stay(a netip.Addr) string {
	if r == nil {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.addr != a {
		r.set(a)
	}
	if !r.several {
		return ""
	}
	return r.text
}

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

// newResolver returns a resolver of a host, which may be an address.
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
