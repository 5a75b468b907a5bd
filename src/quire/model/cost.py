"""What an attempt cost: bytes moved, tokens and money spent.

Promise: sums are exact whatever their order, so everything is an integer; money is in millionths of the
currency that the operator pays in. Must not know: which currency, or who charges.
"""

from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation

from msgspec import Struct

Money = float | Decimal | str
MICROS = 1_000_000
# What a database column holds; beyond it is a mistake, not a price.
LARGEST = 2**63 - 1
LARGEST_AMOUNT = LARGEST // MICROS


class Cost(Struct, frozen=True, gc=False, array_like=True):
    bytes_in: int = 0
    bytes_out: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    money_micros: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.bytes_in + other.bytes_in,
            self.bytes_out + other.bytes_out,
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            self.money_micros + other.money_micros,
        )


NO_COST = Cost()


def parse_money(money: Money) -> Decimal:
    """An amount in currency units, as it is written: 0.1 is a tenth. Raises ValueError when it is none."""
    try:
        amount = money if isinstance(money, Decimal) else Decimal(str(money))
    except InvalidOperation as error:
        raise ValueError(f"{money!r} is not an amount of money") from error
    if not amount.is_finite() or not 0 <= amount <= LARGEST_AMOUNT:
        raise ValueError(f"{money!r} is not an amount of money that can be spent")
    return amount


def to_micros(amount: Decimal) -> int:
    return int((amount * MICROS).to_integral_value(ROUND_HALF_EVEN))
