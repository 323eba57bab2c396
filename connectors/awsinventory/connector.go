package awsinventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest/awsapi"
	"github.com/idlewatt/idlewatt/schema/event"
)

// login is a way to one account.
type login struct {
	*awsapi.Session
	account string
	home    string // the region to ask for regions
}

// where names account and region in messages.
func (l login) where(region string) string { return "account " + l.account + ", " + region }

// refused is how long a region or account waits that does not answer for want of a right. It is
// reported each time, and holds up no other.
const refused = time.Hour

// pass is one pull at work.
type pass struct {
	*connector
	emit   connectors.Emitter
	cur    cursor
	told   int // regions that answered whole
	failed []error
}

// Pull asks every region of every account that is due, and tells the runs of which there is
// news. An account or region that fails holds up no other.
func (c *connector) Pull(ctx context.Context, cur connectors.Cursor, emit connectors.Emitter) (connectors.Cursor, error) {
	p := pass{connector: c, emit: emit}
	if err := awsapi.Unpack(cur, &p.cur); err != nil {
		return cur, err
	}
	if p.cur.Places == nil {
		p.cur.Places = map[string]*place{}
	}
	s, err := awsapi.Open(ctx, c.cfg.Config, c.tune)
	if err != nil {
		return cur, err
	}
	defer s.Close()
	logins, err := c.logins(ctx, s)
	if err != nil {
		return cur, err
	}
	for _, l := range logins {
		if err := p.account(ctx, l); err != nil {
			return cur, err
		}
	}
	if len(p.failed) > 0 && p.told == 0 {
		return cur, awsapi.Together(p.failed, true)
	}
	next, err := awsapi.Pack(p.cur)
	if err != nil {
		return cur, err
	}
	if len(p.failed) == 0 {
		return next, nil
	}
	if err := connectors.Keep(ctx, emit, next, ""); err != nil {
		return cur, err
	}
	return next, awsapi.Together(p.failed, false)
}

// logins returns a way to each account. That of the credentials is asked for its name; the
// others carry it in their role.
func (c *connector) logins(ctx context.Context, s *awsapi.Session) ([]login, error) {
	var out []login
	if c.cfg.OwnAccount {
		own, err := s.Account(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, login{s, own, s.Home()})
	}
	for _, a := range c.cfg.Accounts {
		id := a.role().Account()
		if !slices.ContainsFunc(out, func(l login) bool { return l.account == id }) {
			out = append(out, login{s.As(a.role()), id, s.Home()})
		}
	}
	return out, nil
}

// account asks the regions of one account. Only what ends the whole pull is returned.
func (p *pass) account(ctx context.Context, l login) error {
	whole := l.account + "/"
	if at := p.cur.Places[whole]; at != nil && p.now().Unix() < at.Later {
		return nil
	}
	regions, err := p.regions(ctx, l)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		if connectors.IsPermanent(err) {
			p.cur.Places[whole] = &place{Later: p.now().Add(refused).Unix()}
		}
		p.failed = append(p.failed, err)
		return nil
	}
	delete(p.cur.Places, whole)
	for _, region := range regions {
		key := l.account + "/" + region
		at := p.cur.Places[key]
		if at == nil {
			at = &place{}
		}
		if !at.due(p.now()) {
			continue
		}
		asked := p.now()
		seen, err := p.instances(ctx, l, region)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case awsapi.Disabled(err):
			continue
		case err != nil:
			if connectors.IsPermanent(err) {
				at.Later = asked.Add(refused).Unix()
				p.cur.Places[key] = at
			}
			p.failed = append(p.failed, err)
			continue
		}
		p.told++
		at.Later = 0
		if err := p.tell(ctx, l.account, region, at, asked, seen); err != nil {
			return err
		}
		p.cur.Places[key] = at
	}
	return nil
}

// tell publishes what is new of a region, and then that all of it has been told.
func (p *pass) tell(ctx context.Context, account, region string, at *place, asked time.Time, seen []sight) error {
	before := at.Seen
	for _, t := range at.look(asked, p.now(), seen) {
		e, err := t.event(p.source, asked)
		if err != nil {
			return err
		}
		if err := p.emit.Event(ctx, e); err != nil {
			return err
		}
	}
	if at.Seen == before {
		return nil
	}
	return connectors.TellPoll(ctx, p.emit, event.Poll{
		Source: p.source, Provider: "aws", Account: account, Region: region, At: time.Unix(at.Seen, 0), Running: len(at.Open),
	})
}

var errTurning = errors.New("the pages of the answer turn in a circle")

// instances asks for every instance of a region, all pages.
func (p *pass) instances(ctx context.Context, l login, region string) ([]sight, error) {
	var out []sight
	err := p.pages(ctx, l.In(region), func(owner string, i instance) error {
		if owner == "" {
			owner = l.account
		}
		s, ok := p.known.read(i, owner, region)
		if !ok {
			return fmt.Errorf("instance %q has no id, no state or no launch time", aws.ToString(i.InstanceId))
		}
		out = append(out, s)
		return nil
	})
	if err != nil {
		return nil, l.Failure(ctx, err, "ec2:DescribeInstances", l.where(region))
	}
	return out, nil
}
