//! Chance that a seed repeats: which fault comes when.

/// splitmix64: the same seed draws the same numbers.
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    /// Dice with this seed.
    pub fn of(seed: u64) -> Dice {
        Dice(seed)
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }

    /// One of these, which are not none.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_draws_the_same_numbers_again() {
        let draw = |seed| {
            let mut dice = Dice::of(seed);
            (0..50).map(|_| dice.below(6)).collect::<Vec<u64>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert!((0..6).all(|face| draw(7).contains(&face)));
        assert!([3, 4].contains(&Dice::of(1).one_of(&[3, 4])));
    }
}
