// Several answers to one question, in each test from the first on.
let before;
beforeAll(async () => {
  before = await ask.roll("Roll.");
});

for (const name of ["one", "two"]) {
  test(name, async () => {
    const seen = [before, await ask.roll("Roll."), await ask.roll("Roll."), await ask.roll("Roll."), await ask.greet("Hi.")];
    expect(seen).toEqual(ask.recorded(`${NAME}-${name}`, seen));
  });
}

for (const name of ["three", "four"]) {
  test.concurrent(name, async () => {
    const seen = [await ask.roll("Together."), await ask.roll("Together.")];
    expect(seen).toEqual(ask.recorded(`${NAME}-${name}`, seen));
  });
}
