package alert

import (
	"errors"
	"fmt"
	"time"

	"github.com/idlewatt/idlewatt/processors/alert/notify"
	"github.com/idlewatt/idlewatt/processors/alert/notify/slack"
)

// OpenChannels reads the channels' secrets and makes their notifiers, by channel name.
func OpenChannels(r Rules, getenv func(string) string, now func() time.Time) (map[string]notify.Notifier, error) {
	out := map[string]notify.Notifier{}
	var errs []error
	for name, c := range sorted(r.Channels) {
		n, err := slack.Open(c.Slack, getenv, now)
		if err != nil {
			errs = append(errs, fmt.Errorf("channels.%s.slack: %w", name, err))
			continue
		}
		out[name] = n
	}
	return out, errors.Join(errs...)
}
