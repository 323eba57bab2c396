package runpod

import (
	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/schema/money"
)

// rateDigits keep a price per GB and hour exact enough for a volume of any size.
const rateDigits = 18

// perHour turns the prices into USD per GB and hour, by their names in the configuration. An
// empty one is left out.
func (s StoragePrices) perHour() map[string]money.Decimal {
	out := map[string]money.Decimal{}
	month, _, err := money.Parse(s.HoursPerMonth)
	if err != nil || !month.IsPositive() {
		return out // refused by Validate
	}
	for name, text := range map[string]string{
		"container_running": s.ContainerRunning, "volume_running": s.VolumeRunning, "volume_stopped": s.VolumeStopped,
		"network_first_tb": s.NetworkFirstTB, "network_beyond": s.NetworkBeyond, "high_performance": s.HighPerformance,
	} {
		if d, _, err := money.Parse(text); err == nil {
			out[name] = d.DivRound(month, rateDigits)
		}
	}
	return out
}

// firstTB is the size that is billed at the first price, in GB.
var firstTB = decimal.NewFromInt(1000)

// volumeRate is what a network volume costs an hour; nil if its price is not known.
func (c *connector) volumeRate(v volume) *money.Decimal {
	var rate money.Decimal
	price, ok := c.gb["high_performance"]
	switch {
	case !v.Size.set:
		return nil
	case v.Type == "STANDARD":
		first := decimal.Min(v.Size.Decimal, firstTB)
		rate = first.Mul(c.gb["network_first_tb"]).Add(v.Size.Sub(first).Mul(c.gb["network_beyond"]))
	case v.Type == "HIGH_PERFORMANCE" && ok:
		rate = v.Size.Mul(price)
	default:
		return nil
	}
	rate = rate.RoundBank(hourDigits)
	return &rate
}
