package normalize

import (
	"testing"

	"github.com/idlewatt/idlewatt/deploy/local/localtest"
)

func TestMain(m *testing.M) { localtest.Main(m) }
